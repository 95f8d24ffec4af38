"""What the goldens' tokenizers are trained on, and the texts that they are asked to encode."""

CORPUS = """
The quick brown fox jumps over the lazy dog. It's what they'll say, isn't it? I've seen 12 of 345 dogs.
She didn't know that we'd been there; you're late, I'm sure. THE QUICK BROWN FOX! HelloWorld, camelCase.
In 1984 there were 1,234,567 people (roughly 3.14159% of all) who paid $99.99 for it -- or 50% less...
def main(argc, argv):
    for i in range(10):
        print(f"value: {i:>3}", end="\\n")
    return {"key": [1, 2, 3], 'other': None}
int main(void) { return 0; } // a comment /* and another */ #include <stdio.h>
Größe, Straße und Übung: äöüß. Où est le café? L'été, c'est la fête. ¿Dónde está el niño? ¡Aquí!
Быстрая коричневая лиса перепрыгивает через ленивую собаку. Привет, мир!
Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί.
敏捷的棕色狐狸跳过了懒狗。你好，世界！今天天气很好，我们去公园吧。2024年12月31日。
素早い茶色の狐がのろまな犬を飛び越える。こんにちは、世界！カタカナとひらがな。
빠른 갈색 여우가 게으른 개를 뛰어넘습니다. 안녕하세요, 세계!
الثعلب البني السريع يقفز فوق الكلب الكسول. مرحبا بالعالم!
השועל החום המהיר קופץ מעל הכלב העצלן. שלום עולם!
तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। नमस्ते दुनिया!
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ สวัสดีชาวโลก
Emoji: 😀 😃 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ ✨ and arrows → ⇒ ∀x∈ℝ: x² ≥ 0 ½ ¾ Ⅷ ①②③
the the the and and and of of to in is it that was for on are with as his they at be this from
have or by one had not but what all were when we there can an your which their said if do will each
tokenization internationalization antidisestablishmentarianism unbelievable reusable preprocessing
""".strip().split("\n")

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "Hello, world!", "hello world", "  leading and trailing  ",
    "The quick brown fox jumps over the lazy dog.", "I'll say it's what they've done, we'd; you're I'm",
    "I'LL SAY IT'S WHAT THEY'VE DONE, WE'D; YOU'RE I'M", "'s 't 're've'm'll'd'S'T'RE 'x ''s '", "it's'", "don't'don",
    "'\u017f '\u017ft x'\u017fx it'\u017f", "can\u2019t won\u2019t", "HelloWorld camelCase XMLHttpRequest iPhone aB ABc AbC",
    "1 12 123 1234 12345 123456 1234567 3.14159 1,234,567", "abc123def456", "2024-12-31T23:59:59Z", "v1.2.3-rc4+build5",
    "x²+y³=½ ¾ Ⅷ ①②③ ٣٤٥ १२३ 一二三", "１２３ＡＢＣ ﬁ ﬀ ™ ㎏ Å", "$99.99 50% #1 @home a&b c*d e_f g~h",
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~", "...", "......", "?!?!?!", "--- *** ===", "a...b", "(a) [b] {c} <d>", "\"quoted\" 'single'",
    "\n", "\n\n", "\n\n\n\n", "a\nb", "a\n\nb", "a \n b", "a  \n\n  b", "a\r\nb", "a\r\n\r\nb\r", "\r\r\n\n\r", "\t", "\t\ta\tb\t",
    "a\tb\n\tc", "   ", "    four", "     five     spaces     ", "a  b   c    d", "\n  \n   x", "x \n", "x\n ", " \n ", "  \n\n\n  ",
    "\u00a0nbsp\u00a0\u00a0x", "\u3000全角\u3000空白", "thin\u2009space\u200a\u2028line\u2029para\u0085nel\u1680ogham\u180emvs",
    "zero\u200bwidth\u200cnon\u200djoin\ufeffbom", "vt\x0bff\x0cfs\x1cgs\x1d", "nul\x00in\x00side", "\x00", "\x01\x02\x7f\x80\x9f",
    "def f(x):\n    return x**2  # square\n\n\nclass A:\n\tpass\n", "for (int i = 0; i < n; ++i) { a[i] += b[i] * 2; }",
    "<html><body class=\"x\">Hi &amp; bye</body></html>", "https://example.com/path?q=1&r=a%20b#frag", "user.name+tag@example.co.uk",
    "C:\\Users\\x\\file.txt /usr/local/bin ../..", "{\"a\": [1, 2.5e-3, null, true], \"b\": \"\\u00e9\\n\"}", "a/b//c/\n/d",
    "Größe Straße Übung äöüß", "Où est le café? L'été, c'est", "¿Dónde está? ¡Aquí! niño", "naïve façade coöperate",
    "cafe\u0301 vs caf\u00e9", "A\u030a \u00c5 \u212b", "e\u0301\u0323 e\u0323\u0301 \u1eb9\u0301", "\u0301start", "a\u0300\u0301\u0302\u0303\u0304\u0305b",
    "q\u0307\u0323 q\u0323\u0307", "\u1100\u1161\u11a8 \uac01 \u1112\u1161\u11ab\u1100\u1173\u11af", "\u0958 \u0915\u093c \u09dc", "\u2126 \u212a \u2f00 \uf900 \ufb1d",
    "ﬃ ﬆ ĳ ǆ ß ẞ İ ı ſ Σς", "İstanbul IĞDIR ΑΣ ὈΔΥΣΣΕΎΣ ǅ", "Привет, мир! Ёлка ёж", "Η γρήγορη καφέ αλεπού", "ქართული Ქართული Հայերեն",
    "你好，世界！", "敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园吧。", "2024年12月31日 3个", "中文English混排123测试", "㐀𠀀𪜀𫝀𫠠𬺰𮯰",
    "こんにちは、世界！", "カタカナとひらがなﾊﾝｶｸ", "が\u304b\u3099ぱ\u306f\u309a", "빠른 갈색 여우 안녕하세요", "ㄱㄴㄷ 가각갂",
    "مرحبا بالعالم", "السَّلَامُ عَلَيْكُمْ", "שלום עולם", "שָׁלוֹם", "नमस्ते दुनिया", "क्षत्रिय ज्ञान", "สวัสดีชาวโลก น้ำ", "မြန်မာ ខ្មែរ ລາວ བོད་", "தமிழ் తెలుగు ಕನ್ನಡ മലയാളം",
    "😀", "😀😃😄", "👍🏽 👩‍👩‍👧‍👦 🇩🇪🇫🇷", "❤️ ✨ ☃︎ #️⃣ 1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🫠 🪿", "→ ⇒ ∀x∈ℝ ≥ ∞ ∫∑", "𝕳𝖊𝖑𝖑𝖔 𝓦𝓸𝓻𝓵𝓭 𝟙𝟚𝟛", "\U00010400\U00010428 \U0001e900\U0001e922",
    "\ufffd \ufffe \uffff", "\U0010ffff\U000e0001", "\ue000private\uf8ff", "\u0378unassigned\u05ff", "\ufff9\ufffa\ufffb", "\u202ertl\u202c \u2066x\u2069",
    "new: \u0870\u0897\u08c8\u0c5d\u1c89\u1c8a\ua7cb\ua7da \U000105c0\U00010d40\U00010d69\U00010d6f\U00011380\U00011bc0\U00013460\U0001e5d0\U0001cc00\U0001ccf0\U0002ebf0\U00031350",
    "new marks: a\u07fdb\u0898c\u1abfd\u1dfbe\u0cf3 \U00011935\U00011930", "digits: \u06f1\u0967\u0e51\U00011de0\U00016ff4\U0001d7ce\u2460\u2170\u3007",
    "<s>", "</s>", "<unk>", "<pad>", "<s>Hello</s>", "a<s>b", "a <s> b", "  <s>  x", "<s><s></s>", "<s", "s>", "<<s>>", "<0x41>", "<0xE4><0xBD>", "<0xZZ> <0x+F>",
    "<|endoftext|>", "text<|endoftext|>more", " <|endoftext|> ", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|", "<mask>", "a  <mask>  b", "x<mask>y", "[CLS] x [SEP]",
    "word", "sword words word", "wordy", "a word b", "word.word", "(word)", "\u00e9word", "word\u0301", "LowerCase MiXeD", "  strip me", "both  strip  ends", "[both]", "a [both]b", "x  [both]  y  [both]",
    "[left] a  [left]", "[right]  b[right]", "\n[both]\n", "Ünï cödé tökén", "naive naïve NAÏVE", "norm Norm NORM n\u00f6rm", "▁x ▁▁y ▁", "_ ▁_▁", "Ġx Ċy Ä", "ÃÂ©",
    "antidisestablishmentarianism internationalization", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababababababababababab",
    "the the the the thethethethe", "ththththththth", "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "0000000000000000000000000000000000",
    "-" * 70, "=" * 33, " " * 70 + "x", "\n" * 40, " \n" * 20, "ab " * 40, "あ" * 50, "é" * 70, "e\u0301" * 40, "👩‍👩‍👧‍👦" * 8, "x" * 3000, "the quick " * 300,
    "한국어" * 30 + " " + "中" * 90, "A" * 200 + "b" * 200, "a1" * 100, "\u0316\u0301" * 100, "a" + "\u0301\u0316" * 60,
]
