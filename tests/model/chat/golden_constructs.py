"""Small templates that together use every construct: what make_goldens.py renders over CONTEXT."""

CONTEXT = {'n': 5,
 'f': 2.5,
 's': 'Hello Wörld',
 'e': '',
 'l': [3, 1, 2],
 'd': {'b': 1, 'a': {'x': [1, 2]}, 'items': 7},
 'z': None,
 't': True,
 'users': [{'name': 'bob', 'age': 3, 'tags': ['x']},
           {'name': 'Ann', 'age': 9, 'tags': []},
           {'name': 'cat', 'age': 3}],
 'u': '日本語テキスト🙂',
 'big': 18446744073709551615,
 'x': 'ctx',
 'pairs': [[1, 2], [3, 4]],
 'tree': [{'n': 'a', 'c': [{'n': 'b', 'c': []}, {'n': 'c', 'c': [{'n': 'd', 'c': []}]}]},
          {'n': 'e', 'c': []}],
 'msgs': [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'yo'}]}

# Each is put between {{ and }}.
EXPRESSIONS = r"""
1+2*3
-2**2
2**3**2
7//2
-7//2
7%3
-7%3
7%-3
7/2
6/2
2**-1
2**0.5
2**100
1e16
1e15
1.0
0.1+0.2
1e-5
0.0001
1e22
123456789.123
-0.0
5.0//2
-5.5//2
-5.5%2
5.5%-2
True+1
true and 1
0 or 'x'
not 1
1<2<3
1<2>3
1==1.0
'a'=='a'
1==true
[1]==[1.0]
(1,2)<(1,3)
[1,2]<[1]
none==none
none is none
'a'<'b'
'ß'>'z'
1 in [1,2]
'a' in 'cat'
'x' not in d
'b' in d
1 in d
not 1 in [2]
3 in range(5)
'a' in ('a','b')
none in [none]
n if t
n if not t
n if not t else s
(1 if 0 else 2 if 0 else 3)
s[0]
s[-1]
s[7]
s[100]
s[1:3]
s[::-1]
s[::2]
s[-3:]
s[:-3]
s[5:1]
s[10:0:-3]
u[1]
u[-1]
u[1:4]
u[::-1]
u|length
l[0]
l[-1]
l[5]
l[1:]
l[::-1]
(1,2,3)[::2]
range(10)[2:8:2]|list
range(10)[-1]
d['b']
d.b
d.keys()
d.values()
d.keys()|list
d.zzz
d['zzz']
d.a.x[1]
d.get('b')
d.get('q')
d.get('q',4)
d.a.y.z
s.upper()
s.foo
s['upper']()
l.foo
l['foo']
l.append(1)
d.pop('b')
d.update({})
z.foo
z[0]
n.foo
n[0]
undefd
undefd.foo
undefd[0]
undefd()
undefd|length
undefd+1
1+undefd
'a'+undefd
'a'~undefd
undefd==undefd
undefd==1
undefd is defined
undefd|default('q')
undefd|list
undefd<1
-undefd
'a' 'b'
'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1,'a']
'ab'*3
3*'ab'
'ab'*-1
[1]*3
(1,)*2
[1]+[2]
(1,)+(2,)
[1]+(2,)
'a'+1
1+'a'
'a'-'b'
none+1
[1]-[1]
{}+{}
'a'*'b'
'a'*1.5
[1,'a',none,true,1.5,{'k':[1,(2,)]}]
{'a':1,2:'b',none:1.5,true:0}
()
(1,)
[]
{}
'it\'s'
['it\'s','"q"','it\'s "q"','\n\t\\','\x00\x7f','é','\u200b','🙂']
{'é':'ü'}
[u]
"a\tb"
['\u00a0','\ue000','\u2028']
'%s-%d-%5.2f|%-5s|%5s|%05d|%x|%X|%o|%e|%g|%r|%%' % ('a',3,2.5,'ab','cd',42,255,255,8,12345.678,0.0001,'q')
'%s' % 'x'
'%s' % [1,2]
'%s' % none
'%d' % 3.7
'%d' % '3'
'%s %s' % ('a',)
'%s' % ('a','b')
'%(a)s %(b)d' % {'a':1,'b':2}
'abc' % 1
'abc' % []
'%c%c' % (65,'B')
'%+d % d' % (3,4)
'%.3s|' % 'abcdef'
'%*d' % (5,3)
'%5%' % ()
'%q' % 1
'%' % 1
'%-08d|' % 5
'%#x' % 255
'%.3d' % 5
'%s' % undefd
'x' % undefd
'%i' % true
'%f' % 1
'%.0f' % 2.5
'%s' % (1,2)[0]
'%08.3f' % -3.14159
'{} {}'.format(1,2)
'{0} {1} {0}'.format('a','b')
'{a} {b!r}'.format(a=1,b='x')
'{:>5}|{:<5}|{:^5}|'.format(1,2,3)
'{:05d} {:+d} {:,} {:_}'.format(42,5,1234567,1234567)
'{:.2f} {:e} {:g} {:%}'.format(3.14159,12345.6789,0.00001,0.256)
'{:x} {:#x} {:b} {:o} {:c}'.format(255,255,5,8,65)
'{0[0]} {0[1]} {1.b} {1[b]}'.format(l,d)
'{{}}'.format()
'{'.format()
'}'.format()
'{}'.format()
'{:{w}}|'.format('a',w=5)
'{:*^9}'.format('mid')
'{:.3}'.format('abcdef')
'{:.3}'.format(1234.5)
'{:.3}'.format(10.0)
'{:.2}'.format(10.0)
'{:5}|{:5}|'.format('a',1)
'{!s}'.format(none)
'{:>5}'.format(none)
'{:d}'.format('a')
'{:010.2f}'.format(-3.14159)
'{:,.2f}'.format(1234567.891)
'{:g} {:g} {:g}'.format(1e10,100000,1000000)
'{}'.format(1e20)
'{:n}'.format(1234)
'{:.0f}'.format(0.5)
'{:s}'.format('x')
'{a}'.format_map({'a':3})
'{:=+6d}'.format(42)
'{0:>{1}}'.format('a',4)
'{} {0}'.format(1)
'{a.b}'.format(a=d)
'{x}'.format(a=1)
s.lower()
s.title()
s.capitalize()
s.swapcase()
'ß'.upper()
'ŉ'.upper()
'ΑΣ'.lower()
'ΑΣ ΣΑ'.lower()
'İ'.lower()
'ﬁ'.title()
"they're bill's".title()
'Straße'.casefold()
' a b '.strip()
'xxaxx'.strip('x')
'xyabyx'.lstrip('yx')
'abc'.rstrip('c')
'\u3000a\u00a0'.strip()~'|'
' a  b c '.split()
'a,b,,c'.split(',')
'a,b,c'.split(',',1)
'  a b c  '.split(none,1)
'  a b c  '.rsplit(none,1)
'a,b,c'.rsplit(',',1)
'a'.split('')
'a\nb\r\nc\rd\n'.splitlines()
'a\nb\n'.splitlines(true)
'abc'.startswith('a')
'abc'.startswith(('x','a'))
'abc'.endswith('bc')
'abc'.startswith('b',1)
'abc'.endswith('b',0,2)
'abc'.startswith(['a'])
'aXbX'.replace('X','-')
'aaa'.replace('a','b',2)
'abc'.replace('','-')
'abc'.replace('','-',2)
'hello'.find('l')
'hello'.rfind('l')
'hello'.find('z')
'hello'.index('z')
'hello'.count('l')
'hello'.count('')
'hello'.find('l',3)
'hello'.find('',9)
','.join(['a','b'])
','.join([1])
','.join('abc')
'12'.isdigit()
'²'.isdigit()
'½'.isnumeric()
'a1'.isalnum()
'ab'.isalpha()
' '.isspace()
'AB'.isupper()
'A1'.isupper()
'1'.islower()
'Ab Cd'.istitle()
''.isalpha()
'5'.zfill(3)
'-5'.zfill(4)
'ab'.center(7,'*')
'ab'.center(5)
'abc'.center(6)
'a'.ljust(3)~'|'
'a'.rjust(3)
'unhappy'.removeprefix('un')
'abc'.removesuffix('bc')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('x')
'abc'.rpartition('x')
'a\tb'.expandtabs()
'a\tb'.expandtabs(4)
'abc'.isidentifier()
u.find('語')
u.upper()
u.center(20,'*')
u.isalpha()
'Ⅷ'.lower()
'ǆ'.title()
'a,b'.split(sep=',')
'a b c'.split(maxsplit=1)
'abc'.upper(1)
[1,2,1].count(1)
[1,2].index(2)
[1,2].index(5)
(1,2).index(2)
[1].copy()
{'a':1}.copy()
{'a':1}.items()
{'a':1}.items()|list
{'a':1}|items|list
5 .bit_length()
2.0.is_integer()
(5).real
-5|abs
'x'|abs
-1.5|abs
l|batch(2)|list
l|batch(2,'x')|list
[1,2,3,4,5]|slice(3)|list
[1,2,3,4,5]|slice(3,'x')|list
s|capitalize
'a'|center(5)
none|default('x')
none|default('x',true)
''|d('y',true)
''|d('y')
undefd|d
d|dictsort
{'b':1,'A':2,'c':0}|dictsort
{'b':1,'A':2}|dictsort(true)
{'b':1,'A':2}|dictsort(by='value')
{'b':1,'A':2}|dictsort(reverse=true)
'<a&"\'>'|e
'<a>'|escape|escape
'<'|e + '<'
'<' + '<'|e
'<b>'|safe + '<i>'
'<b>'|safe ~ '<i>'
'%s'|e % '<'
['<'|e]
l|first
[]|first
l|last
[]|last
'abc'|first
'abc'|last
d|first
range(3)|last
'3.7'|float
'x'|float
'x'|float(1.5)
'3'|int
'3.7'|int
'x'|int
'x'|int(9)
'ff'|int(0,16)
'0xff'|int(0,16)
'0b11'|int(base=2)
3.9|int
none|int
true|int
' 42 '|int
'1_000'|int
'%s %s'|format('a','b')
'%(a)s'|format(a=3)
users|groupby('age')
users|groupby('age')|map(attribute='grouper')|list
users|groupby('age')|map('last')|map('length')|list
users|groupby('zip',default='none')
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2,true)
'a\nb\n\nc'|indent(2,true,true)
'a\nb'|indent('> ')
'a\nb'|indent(width=1,first=true)
5|indent
[1,2]|join
[1,2]|join(', ')
users|join(', ',attribute='name')
'abc'|join('-')
l|length
s|length
5|length
none|length
l|count
'abc'|list
d|list
s|lower
none|lower
5|upper
users|map(attribute='name')|list
users|map('length')|list
['a','b']|map('upper')|join(',')
users|map(attribute='tags')|list
users|map(attribute='tags',default='none')|list
users|map(attribute='tags.0')|list
none|map('upper')|list
5|map('upper')|list
l|map('nope')|list
l|map|list
l|max
l|min
[]|max
['b','A']|max
['b','A']|min
['b','A']|min(case_sensitive=true)
users|max(attribute='age')
[1,'a']|max
l|reject('odd')|list
l|select('odd')|list
[0,1,'',none]|select|list
[0,1,'',none]|reject|list
users|selectattr('age','equalto',3)|map(attribute='name')|list
users|rejectattr('age','==',3)|map(attribute='name')|list
users|selectattr('tags')|map(attribute='name')|list
users|selectattr('tags','defined')|map(attribute='name')|list
users|selectattr|list
l|select('nope')|list
'aXbX'|replace('X','-')
'aaa'|replace('a','b',1)
5|replace('5','6')
'abc'|reverse
l|reverse|list
d|reverse|list
u|reverse
5|reverse
2.5|round
3.5|round
42.55|round(1)
42.55|round(1,'floor')
42.55|round(1,'ceil')
42.1|round(method='ceil')
5|round
1234|round(-2)
1250|round(-2)
2.675|round(2)
1234.5|round(-2)
42.55|round|int
1|round(1,'x')
l|sort
l|sort(reverse=true)
['b','A','c']|sort
['b','A']|sort(case_sensitive=true)
users|sort(attribute='age,name')|map(attribute='name')|list
users|sort(attribute='age',reverse=true)|map(attribute='name')|list
[1,'a']|sort
5|string
none|string
[1,2]|sum
users|sum(attribute='age')
users|sum('age',10)
[[1],[2]]|sum(start=[])
['a']|sum
"hello wörld foo-bar (baz)"|title
"they're"|title
'ab  '|trim
'xax'|trim('x')
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9,true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11,false,'...',0)
u*10|truncate(12,true,'…',0)
'a'|truncate(1)
[1,1,2,'a','A']|unique|list
['a','A']|unique(true)|list
users|unique(attribute='age')|map(attribute='name')|list
'a b/c?é&'|urlencode
{'a b':'c/d','e':1}|urlencode
'a b-c d_e é'|wordcount
{'a':'<','b':none,'c':1}|xmlattr
{'a b':1}|xmlattr
1000|filesizeformat
1|filesizeformat
123456789|filesizeformat
123456|filesizeformat(true)
999|filesizeformat
d|attr('b')
d|attr('items') is callable
's'|attr('upper') is callable
l|nope
d|tojson
u|tojson
u|tojson(true)
d|tojson(indent=2)
d|tojson(indent=0)
d|tojson(indent='\t')
d|tojson(separators=(',',':'))
{'b':1,'a':2}|tojson(sort_keys=true)
{1:1,none:2,true:3,1.5:4}|tojson
{(1,):1}|tojson
[1.0,1e100,none,true,'"\\\n\r\t\x08\x0c\x01\x7f/'] | tojson
[1.0,'\x7fé🙂']|tojson(ensure_ascii=true)
[]|tojson(indent=2)
{}|tojson(indent=2)
[[],{}]|tojson(indent=2)
undefd|tojson
[undefd]|tojson
range(3)|tojson
(1,2)|tojson
l|map('string')|tojson
'<b>&'|tojson
'<b>'|safe|tojson
big|tojson
big+1
d|tojson(indent=2,separators=(',',' : '))
d|tojson(4)
users|tojson(indent=4,sort_keys=true)
1e400|tojson
d.keys()|tojson
namespace(a=1)|tojson
1 is odd
2 is even
'a' is odd
9 is divisibleby(3)
9 is divisibleby 3
n is defined
z is none
z is not none
t is boolean
1 is boolean
t is true
1 is true
false is false
1 is integer
true is integer
1.0 is float
1 is number
true is number
'a' is string
'a' is number
d is mapping
l is mapping
l is sequence
'a' is sequence
d is sequence
5 is sequence
l|map('x') is sequence
l|map('x') is iterable
5 is iterable
none is iterable
undefd is iterable
undefd is sequence
undefd is callable
range is callable
d.get is callable
'a' is callable
'abc' is lower
'ABC' is upper
5 is lower
n is sameas n
z is sameas none
1 is sameas true
'x'|e is escaped
'x' is escaped
1 is in [1]
1 is not in([2])
'upper' is filter
'nope' is filter
'odd' is test
'nope' is test
1 is eq 1
1 is ne 1
1 is gt 0
1 is ge(1)
1 is lt 2
1 is le 0
1 is lessthan 2
1 is greaterthan 2
1 is equalto 1
'a' is lt 1
1 is nope
d.keys() is sequence
d.keys() is iterable
d is iterable
range(3)|list
range(1,4)|list
range(5,0,-2)|list
range(3)
range(1,5,2)
range(200000)
range()
range('a')
range(3).stop
dict(a=1,b=2)
dict([('a',1)])
dict({'a':1},b=3)
dict()
namespace(a=1).a
namespace({'a':2}).a
namespace(a=1).b
namespace(a=1)['a']
namespace(a=1)['b']
namespace(_a=1)
namespace(a=[1])
cycler(1,2).next()
cycler().next()
joiner()()
raise_exception('oh no: é')
raise_exception()
raise_exception(5)
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
strftime_now('%A %a %B %b %d %j %H:%M:%S %I %p %y %U %w %W %u %V %G %% %Z|%z|%f %-d %e %x %X %c %D %F %T')
strftime_now('')
strftime_now(5)
strftime_now('é%Y')
loop
caller
varargs
lipsum is defined
foo(1)
n()
'a'()
d.a()
__class__
s.__class__
d.__class__
s.__class__.__mro__
d['__class__']
[1,2,3,]
{'a':1,}
(1,2,)
1, 2
[1 2]
{1}
{'a'}
]
(
'a
a.1
l.0
l.0.1
a.
|a
a|
a is
is a
1 is odd is even
not
and
1 if
f(a=1,a=2)
f(a=1,2)
f(*l)
f(*l,*l)
f(**d,1)
a=1
a== 
1 = 1
a:b
a;b
a ! b
a ? b
a & b
$
1_000 + 0x1F + 0b11 + 0o17
1__0
0123
00
1.5e3
1e3
1.e3
.5
1.5.real
'\x41\u00e9\U0001F600\101\n'
'\q'
'\x4'
'\é'
l[1:2:3:4]
l[]
l[1,2]
l[1:2,3]
l[::0]
l['a':]
d[[1]]
d[1:2]
{[1]:2}
{{}}
{'a':{}}
{'a':{'b':1}}.a.b
'a'.b.c
none.x
true.x
(1).x
-l
+n
- -n
not not n
n is not defined
n is not odd
n|d(1)|string
(n|d(1)).x is defined
n > 3 and n < 10 or false
f(x)|d(1)
d.get('a').get('x')[0]
1 < 'a'
[] < 1
none < none
{} < {}
'a' in 5
5 in 'a'
[1] in {}
1/0
1//0
1%0
1.0/0
1.0%0
0**-1
'%5% a' % 3
'{.3}'.format('abc')
'{:{w}}|{0[{{}]}'.format('a',w=5)
'{0[{b]}|'.format({'{b': 1})
'{.{w}}|'.format('a',w=5)
dict(undefd)
namespace(undefd).a
'ff'|int(0,undefd)
users|sort(attribute='nope')|map(attribute='name')|list
users|groupby('nope')|length
""".strip("\n").split("\n")

STATEMENTS = r"""
{% for i in l %}{{ i }},{% endfor %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}|{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.cycle('a','b') }}|{{ loop.changed(i>1) }};{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}
{% for i in undefd %}x{% else %}empty{% endfor %}
{% for i in z %}x{% endfor %}
{% for i in 5 %}x{% endfor %}
{% for i in l if i != 2 %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}
{% for i in l if i > 5 %}x{% else %}none{% endfor %}
{% for a, b in pairs %}{{ a }}-{{ b }};{% endfor %}
{% for a, b in l %}{{ a }}{% endfor %}
{% for a, b in [[1,2,3]] %}{{ a }}{% endfor %}
{% for (a, b), c in [[[1,2],3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for c in 'añb' %}{{ c }}.{% endfor %}
{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in l %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}
{% for i in [1] %}{% continue %}{% else %}E{% endfor %}
{% for i in [1] %}{% break %}{% else %}E{% endfor %}
{% for i in [1,2] %}{% for j in [1,2] %}{% if j==2 %}{% break %}{% endif %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% break %}
{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for i in l %}{% set y %}a{% break %}{% endset %}{% endfor %}{{ y }}
{% for n in tree recursive %}{{ n.n }}{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for n in l %}{{ loop(n) }}{% endfor %}
{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set d.x = 1 %}
{% set undefd.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = [1] %}{{ a }}
{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% if x %}{% set y = 5 %}{% endif %}{{ y }}
{% if not x %}{% set x = 5 %}{% endif %}{{ x }}
{% if not x %}{% set x = 5 %}{% elif x == 'ctx' %}{% set q = 7 %}{% else %}{% set r = 1 %}{% endif %}{{ x }}{{ q }}{{ r }}
{{ x }}{% set x = 2 %}{{ x }}
{% for i in l %}{{ x }}{% endfor %}{% set x = 1 %}{{ x }}
{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 3 %}{{ m() }}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1,3) }} {{ m(a=4,c=5) }} {{ m() }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,k=4) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1,2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ x }}{% endcall %}
{% macro m() %}[{{ caller(1,2) }}]{% endmacro %}{% call(a,b=5) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}[{{ caller() }}]{% endmacro %}{{ m() }}
{% macro m(caller) %}[{{ caller() }}]{% endmacro %}{{ m(1) }}
{% macro m(caller=none) %}[{{ caller }}]{% endmacro %}{{ m() }}{% call m() %}q{% endcall %}
{% macro m() %}{% endmacro %}{% call m() %}q{% endcall %}
{% call 5 %}q{% endcall %}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% macro a() %}{% set x = 9 %}{{ x }}{% endmacro %}{{ a() }}{{ x }}
{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(x) %}{% for i in l %}{{ x }}{{ i }}{% endfor %}{% endmacro %}{{ m('q') }}
{{ m }}{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}
{% macro m(a,a) %}{% endmacro %}
{% macro m(a=1,b) %}{% endmacro %}
{% set y %}a{{ x }}b{% endset %}{{ y }}{{ y|length }}
{% set y | upper %}a{{ x }}b{% endset %}{{ y }}
{% set y | replace('a','z') | upper %}abc{% endset %}{{ y }}
{% set y | replace('a',x) %}abc{% endset %}{{ y }}
{% set y | replace('a',qqq) %}abc{% endset %}{{ y }}
{% filter upper %}a{{ x }}{% endfilter %}
{% filter replace('a','b')|upper %}a{{ x }}{% endfilter %}
{% filter nope %}a{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% with x = 1 %}{{ x }}{% endwith %}{{ x }}
{% with a = 1, b = a %}{{ b }}{% endwith %}
{% raw %}{{ x }}{% if %}{% endraw %}
{% raw %}
{% endraw %}
b
{# c #}a{#- c -#} b
a
{# unclosed
{% raw %} unclosed
{{ unclosed
{% if unclosed
{% if x %}unclosed
a {%- if x -%} b {%- endif -%} c
a {%+ if x %} b {% endif +%} c
c

{{ x }}
{{- x -}}
a {{- x }} b {{ x -}} c
{% if x %}a{% elif y %}b{% else %}c{% endif %}
{% if z %}a{% elif x %}b{% else %}c{% endif %}
{% if z %}a{% elif z %}b{% else %}c{% endif %}
{% if x|nope %}a{% endif %}
{% if z %}{{ x|nope }}{% endif %}ok
{% if x %}{{ x|nope }}{% endif %}ok
{% if z %}{% for i in l %}{{ i|nope }}{% endfor %}{% endif %}ok
{{ x if x is nope }}
{{ x if z is nope }}
{{ 'a' if true else x|nope }}
{% generation %}a{{ x }}{% set x = 2 %}{% endgeneration %}{{ x }}
{% for m in msgs %}{% generation %}{{ m.content }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% print x %}{% print 1, 2 %}
{% do x %}
{% endif %}
{% nope %}
{% %}
{% if %}a{% endif %}
{% if x: %}a{% endif %}
{% for %}{% endfor %}
{% for i l %}{% endfor %}
{% for i in %}{% endfor %}
{% for i in l %}{% endif %}
{% for loop in l %}{% endfor %}
{% for i in l %}{% set loop = 1 %}{% endfor %}
{% set loop = 1 %}{{ loop }}
{% set true = 1 %}
{% set 1 = 1 %}
{% set a.b.c = 1 %}
{% set a[0] = 1 %}
{% set a %}
{% set = 1 %}
{% set a = %}
{% set a = 1 b = 2 %}
{% set a = 1, %}{{ a }}
{% for i in 1,2,3 %}{{ i }}{% endfor %}
{% for i in (1,2) if true %}{{ i }}{% endfor %}
{% for i in l|reverse %}{{ i }}{{ loop.length }}{% endfor %}
{% for i in l|map('string') %}{{ i }}{{ loop.last }}{% endfor %}
{% set g = l|map('string') %}{% for i in g %}{{ i }}{% endfor %}{% for i in g %}{{ i }}{% endfor %}{{ g|list }}
{% set g = l|select('odd') %}{{ g|length }}
{% set g = l|select('odd') %}{% if g %}T{% endif %}{{ g|first }}{{ g|list }}
{% set g = l|select('odd')|list %}{{ g|length }}{{ g[0] }}
{% for i in l if loop.index > 1 %}{{ i }}{% endfor %}
{% for i in l %}{% for j in l if loop.index > 1 %}{{ j }}{% endfor %}{% endfor %}
{% for i in l %}{{ loop.index }}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for i in l %}{% set outer = loop %}{% for j in [1,2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for i in l %}{{ loop.foo }}{{ loop['index'] }}{{ loop|length }}{% endfor %}
{% for i in l %}{{ loop.cycle() }}{% endfor %}
{% for i in l %}{% else %}{{ loop }}{% endfor %}
{% set c = cycler('a','b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }}
{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j() }}
{% set j = joiner() %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}
{% set f = x.upper %}{{ f() }}
{% set f = d.get %}{{ f('a') }}{{ f('q','z') }}
{{ l.append(4) }}
{% set _ = l.append(4) %}
{% set _ = d.update({'a':1}) %}
{% set _ = d.pop('a') %}
{% set _ = d.setdefault('a', 2) %}
{% set kw = {'sep':','} %}{{ 'a,b'.split(**kw) }}{{ 'a,b'.split(*[',']) }}
{% macro m(a,b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1,2]) }}{{ m(**{'a':1,'b':2}) }}{{ m(*[1],**{'b':3}) }}
{% set ns = namespace(a=1) %}{% set ns.self = ns %}{{ ns.self.self.a }}
{% set ns = namespace() %}{% for m in msgs %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}{{ ns.nope }}
{% for i in l %}{% if loop.first %}{% set f = 1 %}{% endif %}{{ f }}{% endfor %}
{% for i in l %}{% if i == 1 %}{% set x = 'in' %}{% endif %}{{ x }}{% endfor %}{{ x }}
{% for m in msgs[1:] + msgs[:1] %}{{ m['role'] }}{% endfor %}
{% for m in msgs[::-1] %}{{ m.role }}{% endfor %}
{% set messages = msgs[1:] %}{% for m in messages %}{{ m.role }}{% endfor %}
{% if msgs[0]['role'] == 'system' %}{% set sys = msgs[0].content %}{% else %}{% set sys = 'default' %}{% endif %}{{ sys }}
{%- for m in msgs %}
{{- '<|' + m.role + '|>\n' + m.content | trim + '<|end|>' }}
{%- endfor %}
{% for x in l %}{% endfor %}{{ x }}
{% for x in l %}{% for x in l %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}
{% set x = x ~ '!' %}{{ x }}
{% macro m() %}{% set x = x ~ '!' %}{{ x }}{% endmacro %}{{ m() }}{{ m() }}
{% macro outer() %}{% macro inner() %}{{ x }}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}
{% macro outer(q) %}{% macro inner() %}{{ q }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer(1) }}{{ outer(2) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% filter upper %}{% for i in l %}{% if i == 2 %}{% break %}{% endif %}a{% endfor %}{% endfilter %}
{% for i in l %}{% filter upper %}a{% if i == 2 %}{% break %}{% endif %}{% endfilter %}{% endfor %}
{{ super() }}
{{ x }}}
{{ {'a':1}['a'] }}{{ {} }}{{ {'a':{}} }}
{%if x%}a{%endif%}
{{x}}{{-x-}}{{ x}}
{%-if x-%} a {%-endif-%}
{% set a = 'é' %}{{ a }}é{{ a|length }}
{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for i in l %}{% if loop.nextitem is defined %}{{ loop.nextitem }}{% endif %}{% if loop.previtem is defined and loop.previtem == 1 %}P{% endif %}{% endfor %}
{{ loop.index }}
{% macro m() %}{% for i in l %}{{ loop.index }}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m() %}<{{ i }}{{ loop is defined }}>{% endcall %}
{% for i in l %}{% call(x) joiner %}{% endcall %}{% endfor %}
{% set content = msgs[0].content %}{% if content is string %}S{% elif content is iterable %}I{% endif %}
{% set items = [1] + l %}{{ items }}
{{ msgs|selectattr('role','equalto','user')|map(attribute='content')|join }}
{{ (msgs|selectattr('role','equalto','user')|list)[0].content }}
{{ msgs|selectattr('role','equalto','user')[0] }}
{{ msgs[-1].role }}{{ msgs|last }}
　{%- if x -%}　b{% endif %}
{% for a, in [[1]] %}{{ a }}{% endfor %}
{% for m in recursive %}{{ m }}{% else %}none{% endfor %}
{% for m in l, recursive %}{{ m }};{% endfor %}
""".strip("\n").split("\n") + [
    '  {%- raw -%}  {{ x }}  {%- endraw -%}  b',
    ' a',
    '  {# c #}',
    '  {% if x %}',
    '    b',
    '  {% endif %}',
    '  {%+ if x %}',
    '  {%- endif %}',
    ' q',
    'a\n  {% if x %}\n    b\n  {% endif %}\nc\n',
    '  {%+ if x %}\n    b\n  {%- endif %}\n\nc\n\n',
    '{{ x }}\n\n',
    '{{ x }}\r\n{% if x %}\r\nq\r{% endif %}\n',
    'a\n   {{ x }}\n  {# c #}\n b',
    'x {% raw %}\n a {{ }}\n  {% endraw %}\n b',
    "{%- for m in msgs %}\n{{- '<|' + m.role + '|>\\n' + m.content | trim + '<|end|>' }}\n{%- endfor %}\n",
    '{% for i in l -%}\n  {{ i }}\n{%- endfor %}\n',
    '{# a\nb #}\n\n{{ x }}',
    'a\n\t {%- if x %}\n\n b{% endif %}',
    '   {% set a = 1 %}   {% set b = 2 %}\n{{ a }}',
    '{% if x %}   \n{% endif %}\n   {% if x %}q{% endif %}',
    '\n\n{{ x }}',
    '{%- raw %}\n x\n{%- endraw +%}\n y',
    '{%+ raw %}\n x\n {%+ endraw %}\n y',
    'a\xa0\n\u3000{% if x %}b{% endif %}',
    '{{ 1 }}\x0c\x0b{% if x %}\x0c{% endif %}',
]
