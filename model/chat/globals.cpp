#include "model/chat/globals.h"

#include <array>
#include <ctime>
#include <utility>

#include "model/chat/arguments.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {
namespace {

using Entries = std::vector<std::pair<Value, Value>>;

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"});
  interpreter.charge_walk(bound.required(0));
  throw RaisedError(to_text(bound.required(0)));
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"});
  return interpreter.text(format_time(interpreter, interpreter.now_s(), bound.string(0)));
}

Value make_range(Interpreter& interpreter, const Arguments& arguments) {
  if (!arguments.keyword.empty()) throw RenderError("range() takes no keyword arguments");
  const Values& given = arguments.positional;
  if (given.empty() || given.size() > 3) {
    throw RenderError("range expected 1 to 3 arguments, got " + std::to_string(given.size()));
  }
  const std::int64_t first = integer_argument(given[0]);
  const std::int64_t start = given.size() == 1 ? 0 : first;
  const std::int64_t stop = given.size() == 1 ? first : integer_argument(given[1]);
  const std::int64_t step = given.size() == 3 ? integer_argument(given[2]) : 1;
  return interpreter.range(start, stop, step);
}

// What dict(...) makes of its arguments.
Entries dict_entries(Interpreter& interpreter, const char* function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    throw RenderError(std::string(function) + " expected at most 1 argument, got " +
                      std::to_string(arguments.positional.size()));
  }
  Entries entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kUndefined)) throw_undefined(source);
    if (source.is(Kind::kDict)) {
      entries = source.dict().entries;
      interpreter.charge(entries.size());
    } else {
      Cursor cursor(interpreter, source);
      Value item;
      while (cursor.next(item)) {
        Values pair = interpreter.collect(item);
        if (pair.size() != 2) {
          throw RenderError("dictionary update sequence element #" +
                            std::to_string(entries.size()) + " has length " +
                            std::to_string(pair.size()) + "; 2 is required");
        }
        entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  entries.insert(entries.end(), arguments.keyword.begin(), arguments.keyword.end());
  return entries;
}

Value make_dict(Interpreter& interpreter, const Arguments& arguments) {
  return interpreter.dict(dict_entries(interpreter, "dict", arguments));
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  return interpreter.name_space(dict_entries(interpreter, "namespace", arguments));
}

Value make_cycler(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.empty()) throw RenderError("at least one item has to be provided");
  interpreter.charge(arguments.positional.size());
  auto* made = new CyclerObject;
  Value value = Value::object(Kind::kCycler, made);
  made->items = arguments.positional;
  for (const Value& item : made->items) contain(*made, item);
  return value;
}

Value make_joiner(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  auto* made = new JoinerObject;
  Value value = Value::object(Kind::kJoiner, made);
  made->separator = bound.has(0) ? bound.required(0) : interpreter.text(", ");
  contain(*made, made->separator);
  return value;
}

Value lipsum(Interpreter& /*interpreter*/, const Arguments& /*arguments*/) {
  throw RenderError("the function 'lipsum' is not supported in chat templates");
}

constexpr std::array<std::pair<std::string_view, FunctionObject::Body>, 8> kGlobals{{
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", make_range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"cycler", make_cycler},
    {"joiner", make_joiner},
    {"lipsum", lipsum},
}};

// %f, %z and %Z are Python's own: no fraction of a second and no time zone here.
std::string expand_python_directives(const std::string& format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      out += "000000";
    } else if (directive == 's') {
      throw RenderError(
          "strftime_now does not support %s, which depends on the machine's time zone");
    } else if (directive != 'z' && directive != 'Z') {
      out += '%';
      out += directive;
    }
  }
  return out;
}

}  // namespace

Value find_global(std::string_view name) {
  for (const auto& [known, body] : kGlobals) {
    if (known == name) return Interpreter::function(body);
  }
  return {};
}

std::string format_time(Interpreter& interpreter, std::int64_t time_s, const std::string& format) {
  const std::time_t time = time_s;
  std::tm parts{};
  gmtime_r(&time, &parts);
  const std::string expanded = expand_python_directives(format);
  interpreter.charge(expanded.size());
  // A directive gives some dozens of bytes; one with a width of its own could ask for any number.
  constexpr std::size_t kBytesPerDirective = 64;
  std::string out((expanded.size() + 1) * kBytesPerDirective, '\0');
  interpreter.check_text(out.size());
  // The space tells an empty result from a buffer that is too small.
  const std::size_t size = std::strftime(out.data(), out.size(), (expanded + " ").c_str(), &parts);
  if (size == 0) throw RenderError("strftime_now cannot format " + quote_text(format));
  out.resize(size - 1);
  return out;
}

}  // namespace headrace::jinja
