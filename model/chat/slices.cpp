#include "model/chat/slices.h"

#include <algorithm>
#include <limits>

#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

// The positions that a slice picks of a sequence.
struct Picked {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

std::int64_t bound(const Value& value, std::int64_t otherwise) {
  if (value.is(Kind::kNone)) return otherwise;
  if (value.is(Kind::kUndefined) || !value.is_integer()) {
    throw RenderError("slice indices must be integers or None or have an __index__ method");
  }
  constexpr Int128 kLimit = std::numeric_limits<std::int64_t>::max() / 2;
  return static_cast<std::int64_t>(std::clamp(integer_of(value), -kLimit, kLimit));
}

Picked pick(std::int64_t length, const SliceBounds& bounds) {
  Picked picked;
  picked.step = bound(bounds.step, 1);
  if (picked.step == 0) throw RenderError("slice step cannot be zero");
  const bool forward = picked.step > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? length : length - 1;
  const auto place = [&](const Value& value, std::int64_t otherwise) {
    if (value.is(Kind::kNone)) return otherwise;
    const std::int64_t at = bound(value, 0);
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  picked.start = place(bounds.start, forward ? low : high);
  const std::int64_t stop = place(bounds.stop, forward ? high : low);
  if (forward && picked.start < stop) picked.count = (stop - picked.start - 1) / picked.step + 1;
  if (!forward && stop < picked.start)
    picked.count = (picked.start - stop - 1) / (-picked.step) + 1;
  return picked;
}

std::int64_t narrow(Int128 value) {
  if (value > std::numeric_limits<std::int64_t>::max() ||
      value < std::numeric_limits<std::int64_t>::min()) {
    throw RenderError("a range reaches beyond 64-bit integers");
  }
  return static_cast<std::int64_t>(value);
}

Value slice_text(Interpreter& interpreter, const Value& object, const SliceBounds& bounds) {
  const StringObject& source = string_object(object);
  const Picked picked = pick(source.length, bounds);
  interpreter.charge(source.text.size() / kBytesPerWeight);
  if (picked.count == 0) return interpreter.text("", source.markup);
  if (picked.step == 1) {
    const std::string_view text = source.text;
    const std::size_t begin =
        source.ascii() ? static_cast<std::size_t>(picked.start) : byte_offset(text, picked.start);
    const std::size_t size = source.ascii() ? static_cast<std::size_t>(picked.count)
                                            : byte_offset(text.substr(begin), picked.count);
    return interpreter.text(std::string(text.substr(begin, size)), source.markup);
  }
  std::vector<std::size_t> offsets;  // of every code point, and the end
  for (std::size_t at = 0; at < source.text.size(); next_code_point(source.text, at))
    offsets.push_back(at);
  offsets.push_back(source.text.size());
  interpreter.charge(offsets.size());
  std::string out;
  for (std::int64_t i = 0; i < picked.count; ++i) {
    const auto at = static_cast<std::size_t>(picked.start + i * picked.step);
    out.append(source.text, offsets[at], offsets[at + 1] - offsets[at]);
  }
  return interpreter.text(std::move(out), source.markup);
}

}  // namespace

Value take_slice(Interpreter& interpreter, const Value& object, const SliceBounds& bounds) {
  switch (object.kind()) {
    case Kind::kUndefined:
      throw_undefined(object);
    case Kind::kString:
      return slice_text(interpreter, object, bounds);
    case Kind::kList:
    case Kind::kTuple: {
      const Values& source = object.items();
      const Picked picked = pick(static_cast<std::int64_t>(source.size()), bounds);
      Values items;
      items.reserve(static_cast<std::size_t>(picked.count));
      for (std::int64_t i = 0; i < picked.count; ++i) {
        items.push_back(source[static_cast<std::size_t>(picked.start + i * picked.step)]);
      }
      return object.is(Kind::kList) ? interpreter.list(std::move(items))
                                    : interpreter.tuple(std::move(items));
    }
    case Kind::kRange: {
      const auto& source = object.as<RangeObject>();
      const Picked picked = pick(source.size(), bounds);
      if (picked.count == 0) return interpreter.range(0, 0, 1);
      const Int128 start = source.start + Int128{picked.start} * source.step;
      const Int128 step = Int128{source.step} * picked.step;
      return interpreter.range(narrow(start), narrow(start + picked.count * step), narrow(step));
    }
    case Kind::kDict:
    case Kind::kNamespace:
      throw RenderError("unhashable type: 'slice'");
    default:
      throw RenderError(std::string("'") + type_name(object) + "' object is not subscriptable");
  }
}

}  // namespace headrace::jinja
