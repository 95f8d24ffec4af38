#include "model/chat/attribute_path.h"

#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

bool is_index(std::string_view part) {
  constexpr std::size_t kMaxDigits = 18;
  return !part.empty() && part.size() <= kMaxDigits &&
         part.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

AttributePath::AttributePath(Interpreter& interpreter, const Value& attribute)
    : interpreter_(interpreter) {
  if (attribute.is(Kind::kNone) || attribute.is(Kind::kMissing)) return;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& path = attribute.text();
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    parts_.push_back(is_index(part) ? Value::integer(std::stoll(part)) : interpreter.text(part));
    begin = end + 1;
  }
}

Value AttributePath::get(Value item, const Value& otherwise) const {
  interpreter_.charge(parts_.size());
  for (const Value& part : parts_) {
    item = interpreter_.item(item, part);
    if (item.is(Kind::kUndefined) && !otherwise.is(Kind::kMissing) && !otherwise.is(Kind::kNone))
      item = otherwise;
  }
  return item;
}

Value ignoring_case(Interpreter& interpreter, Value value) {
  if (!value.is(Kind::kString)) return value;
  return interpreter.text(to_lower(value.text()));
}

}  // namespace headrace::jinja
