// The values a chat template computes with: Python's, as far as jinja2's sandbox lets a template
// see them. A Value is 16 bytes; text and containers are shared and immutable once built.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headrace::jinja {

/// A failure while rendering, without the line; ChatTemplate::render adds it.
class RenderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

__extension__ using Int128 = __int128;

/// Integers end here, where Python's do not: no template counts further, and sums cannot overflow.
constexpr Int128 kMaxInteger = Int128{1} << 126;

enum class Kind : std::uint8_t {
  kMissing,  // never seen by a template: a variable without a value
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kFunction,  // a global, or a cycler's or a joiner's own call
  kMethod,
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
};

/// What a Value points at. Reference counts are not atomic: a value belongs to one render.
/// Constants of a program are shared between threads, so they are made immortal and their count is
/// never written.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  void retain() const {
    if (references_ >= 0) ++references_;
  }
  void release() const {
    if (references_ > 0 && --references_ == 0) delete this;
  }
  void make_immortal() const { references_ = -1; }
  void free_immortal() const { delete this; }

  int depth =
      0;  // containers below this one; bounded, so that walking it cannot overflow the stack
  std::int64_t weight =
      1;  // values below this one, shared ones counted each time: the cost of a walk

 private:
  mutable int references_ = 0;
};

struct StringObject;
struct SequenceObject;
struct DictObject;

class Value {
 public:
  Value() : kind_(Kind::kMissing), integer_(0) {}
  Value(const Value& other) : kind_(other.kind_), integer_(other.integer_) {
    if (is_object()) object_->retain();
  }
  Value(Value&& other) noexcept : kind_(other.kind_), integer_(other.integer_) {
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(integer_, other.integer_);
    return *this;
  }
  ~Value() {
    if (is_object()) object_->release();
  }

  static Value none() { return Value(Kind::kNone, 0); }
  static Value boolean(bool value) { return Value(Kind::kBool, value ? 1 : 0); }
  static Value integer(std::int64_t value) { return Value(Kind::kInt, value); }
  static Value big_integer(Int128 value);  // kInt where it fits; RenderError beyond kMaxInteger
  static Value real(double value);
  static Value string(std::string text, bool markup = false);
  static Value object(Kind kind, Object* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_integer() const {
    return kind_ == Kind::kInt || kind_ == Kind::kBool || kind_ == Kind::kBigInt;
  }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }

  bool bool_value() const { return integer_ != 0; }
  std::int64_t int_value() const { return integer_; }
  double float_value() const { return real_; }
  const std::string& text() const;
  bool markup() const;
  const SequenceObject& sequence() const;
  const std::vector<Value>& items() const;
  const DictObject& dict() const;
  template <typename T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const Object* identity() const { return is_object() ? object_ : nullptr; }
  int depth() const { return is_object() ? object_->depth : 0; }
  std::int64_t weight() const { return is_object() ? object_->weight : 1; }
  void make_immortal() const {
    if (is_object()) object_->make_immortal();
  }
  /// Only by the one owner of an immortal value, when nothing else refers to it any more.
  void free_immortal() {
    if (is_object()) object_->free_immortal();
    kind_ = Kind::kMissing;
  }

 private:
  Value(Kind kind, std::int64_t value) : kind_(kind), integer_(value) {}
  bool is_object() const {
    return kind_ >= Kind::kString || kind_ == Kind::kBigInt || kind_ == Kind::kUndefined;
  }

  Kind kind_;
  union {
    std::int64_t integer_;
    double real_;
    Object* object_;
  };
};

using Values = std::vector<Value>;

struct StringObject : Object {
  std::string text;     // UTF-8
  std::int64_t length;  // code points
  bool markup = false;  // markupsafe's Markup, made by the filters safe and escape
  bool ascii() const { return length == static_cast<std::int64_t>(text.size()); }
};

struct BigIntObject : Object {
  Int128 value = 0;
};

/// What a lookup found nothing for, and the words jinja2 complains with when it is used.
struct UndefinedObject : Object {
  std::string hint;             // the whole message, or empty
  const char* owner = nullptr;  // "dict object"; null for a plain variable
  std::string name;             // of the variable or attribute, or the text of the element
  bool is_element = false;      // looked up by something that is not a string
  std::string message() const;
};

struct SequenceObject : Object {
  Values items;
  bool group = false;  // a tuple made by groupby, whose parts are also called grouper and list
};

/// Insertion ordered; an index is built when linear search stops being cheap.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;
  const Value* find(const Value& key) const;  // key must be hashable
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  void clear();

 private:
  std::ptrdiff_t position(const Value& key, std::size_t hash) const;
  std::unordered_multimap<std::size_t, std::size_t> index_;
};

struct DictViewObject : Object {
  enum class Part { kKeys, kValues, kItems };
  Value owner;
  Part part = Part::kKeys;
};

struct RangeObject : Object {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t size() const;
};

/// A one-shot source of values: what Python's generators and reversed() give.
struct IteratorObject : Object {
  virtual bool next(Value& value) = 0;
  virtual const char* type_name() const { return "generator"; }
};

/// Mutable; kept until the end of the render, which clears it (namespaces may refer to each other
/// in a circle).
struct NamespaceObject : Object {
  DictObject attributes;
};

struct CyclerObject : Object {
  Values items;
  std::size_t position = 0;
};

struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

const StringObject& string_object(const Value& value);

/// Python's name of the type: "str", "NoneType", ...
const char* type_name(const Value& value);
/// As jinja2 names an owner in its messages: "dict object".
const char* owner_name(const Value& value);

Value undefined_variable(std::string_view name);
Value undefined_hint(std::string hint);
Value undefined_lookup(const Value& owner, const Value& name);
Value undefined_attribute(const Value& owner, std::string_view name);
/// Throws what jinja2 says when an undefined value is used.
[[noreturn]] void throw_undefined(const Value& value);

bool truthy(const Value& value);
/// Python's ==.
bool equal(const Value& a, const Value& b);
/// Python's `is`, where small integers and strings with the same text count as the same object.
bool same(const Value& a, const Value& b);
bool hashable(const Value& value);
std::size_t hash_of(const Value& value);  // RenderError for what cannot be hashed
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
bool ordered(const Value& a, const Value& b, Order order);  // a < b, ... TypeErrors as RenderError

Int128 integer_of(const Value& value);  // of kBool, kInt, kBigInt
double number_of(const Value& value);   // of any number

/// Sets the depth and weight of something that holds `part`. RenderError beyond the bounds.
void contain(Object& whole, const Value& part);

constexpr int kMaxValueDepth = 200;
constexpr std::int64_t kMaxValueWeight = 50'000'000;
constexpr std::size_t kBytesPerWeight = 32;  // of text

}  // namespace headrace::jinja
