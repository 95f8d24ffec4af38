#include "runtime/job/json_line.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// What the JSON library says behind its own prefixes ("[...] parse error at line 1, column 2: "),
// without the text it last read: that may be long and need not be UTF-8.
std::string_view detail_of(std::string_view what) {
  constexpr std::size_t kMaxDetail = 120;
  if (what.starts_with('[')) what.remove_prefix(what.find("] ") + 2);
  if (what.starts_with("parse error at")) what.remove_prefix(what.find(": ") + 2);
  return what.substr(0, what.find("; last read")).substr(0, kMaxDetail);
}

// Builds a document and stops where a bound is passed.
class BoundedBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit BoundedBuilder(Json& root) : root_(root) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    member_ = &(*open_.back())[std::move(name)];
    if (++num_members_.back() <= kMaxJsonMembers) return true;
    problem_ = fmt::format("an object with more than {} members", kMaxJsonMembers);
    return false;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    problem_ = fmt::format("not valid JSON at byte {}: {}", position, detail_of(error.what()));
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  template <typename Value>
  Json* place(Value&& value) {
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(*member_ = std::forward<Value>(value));
    parent.push_back(std::forward<Value>(value));
    return &parent.back();
  }

  template <typename Value>
  bool put(Value&& value) {
    if (!count()) return false;
    place(std::forward<Value>(value));
    return true;
  }

  bool count() {
    if (++num_values_ <= kMaxJsonValues) return true;
    problem_ = fmt::format("JSON of more than {} values", kMaxJsonValues);
    return false;
  }

  bool open(Json&& container) {
    if (!count()) return false;
    if (open_.size() == static_cast<std::size_t>(kMaxJsonDepth)) {
      problem_ = fmt::format("JSON nested deeper than {} levels", kMaxJsonDepth);
      return false;
    }
    open_.push_back(place(std::move(container)));
    num_members_.push_back(0);
    return true;
  }

  bool close() {
    open_.pop_back();
    num_members_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;
  std::vector<int> num_members_;  // of each open container, repeated keys included
  std::int64_t num_values_ = 0;
  Json* member_ = nullptr;
  std::string problem_;
};

}  // namespace

std::string parse_json_line(std::string_view text, Json& out) {
  BoundedBuilder builder(out);
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return {};
  return builder.problem();
}

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "true or false";
    case Json::value_t::number_float:
      return "a number with a fraction";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    default:
      return "not JSON";
  }
}

}  // namespace headrace
