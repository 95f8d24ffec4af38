#include "model/tokenizer/tokenizer_json_file.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "model/checkpoint/input_file.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

// Builds a tree from the parser's events, except below model.vocab and model.merges, whose events
// fill flat buffers. Complaints are thrown; the parser passes them on.
class Reader {
 public:
  explicit Reader(TokenizerJsonFile& file) : file_(file) {}

  // The parser's names.
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool null() { return value(json(nullptr)); }
  bool boolean(bool x) { return value(json(x)); }
  bool number_integer(number_integer_t x) { return number(x, static_cast<double>(x), json(x)); }
  bool number_unsigned(number_unsigned_t x) {
    const auto id = x > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(x);
    return number(id, static_cast<double>(x), json(x));
  }
  bool number_float(number_float_t x, const string_t&) { return number(std::nullopt, x, json(x)); }
  bool binary(binary_t&) { return false; }

  bool string(string_t& x) {
    switch (target_) {
      case Target::kTree:
        return value(json(std::move(x)));
      case Target::kVocabulary:
        if (!file_.vocabulary.is_list || depth() != 4 || have_text_) fail_vocabulary();
        text_ = std::move(x);
        have_text_ = true;
        return true;
      case Target::kMerges:
        return merge_string(x);
    }
    return false;
  }

  bool start_object(std::size_t) { return start(json::object()); }
  bool start_array(std::size_t) { return start(json::array()); }

  bool key(string_t& x) {
    if (target_ == Target::kVocabulary) {
      text_ = std::move(x);
    } else {
      keys_.back() = std::move(x);
    }
    return true;
  }

  bool end_object() { return end(); }
  bool end_array() {
    if (target_ == Target::kVocabulary && depth() == 4) end_scored_token();
    if (target_ == Target::kMerges && depth() == 4) end_pair();
    return end();
  }

  // What was last read may be long and need not be UTF-8.
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    const std::string_view what = error.what();
    throw std::invalid_argument(fmt::format("{}: not JSON at byte {}: {}", file_.name, position,
                                            what.substr(0, what.find("; last read"))));
  }

 private:
  enum class Target { kTree, kVocabulary, kMerges };

  std::size_t depth() const { return keys_.size(); }

  [[noreturn]] void fail_vocabulary() const {
    throw std::invalid_argument(fmt::format(
        "{}: model.vocab, entry {}: accepted: {{\"text\": id, ...}} or [[\"text\", score], ...]",
        file_.name, file_.vocabulary.entries.size()));
  }
  [[noreturn]] void fail_merges() const {
    throw std::invalid_argument(
        fmt::format("{}: model.merges, entry {}: accepted: \"left right\" or [\"left\", \"right\"]",
                    file_.name, file_.merges.entries.size()));
  }

  bool value(json x) {
    if (target_ == Target::kVocabulary) fail_vocabulary();
    if (target_ == Target::kMerges) fail_merges();
    place(std::move(x));
    return true;
  }

  bool number(std::optional<std::int64_t> id, double score, json x) {
    if (target_ != Target::kVocabulary) return value(std::move(x));
    if (file_.vocabulary.is_list) {
      if (depth() != 4 || !have_text_ || score_) fail_vocabulary();
      score_ = score;
    } else {
      if (!id) fail_vocabulary();
      file_.vocabulary.add(text_, *id);
    }
    return true;
  }

  bool merge_string(const string_t& x) {
    if (depth() == 4) {
      pair_.push_back(x);
    } else if (!x.starts_with("#version") && !file_.merges.add_legacy(x)) {
      fail_merges();
    }
    return true;
  }

  // Puts a value into the innermost open container and returns where it lies.
  json* place(json x) {
    if (open_.empty()) {
      file_.tree = std::move(x);
      return &file_.tree;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(x));
      return &parent.back();
    }
    json& slot = parent[keys_.back()];
    slot = std::move(x);
    return &slot;
  }

  bool start(json container) {
    if (depth() == kDeepest) {
      throw std::invalid_argument(
          fmt::format("{}: nested deeper than {} levels", file_.name, kDeepest));
    }
    const bool is_array = container.is_array();
    if (target_ == Target::kTree) {
      enter(is_array);
      if (target_ == Target::kTree) open_.push_back(place(std::move(container)));
    } else {
      // Inside of a vocabulary or of merges only the inner lists of two are allowed.
      const bool is_inner_list =
          is_array && depth() == 3 && (target_ == Target::kMerges || file_.vocabulary.is_list);
      if (!is_inner_list && target_ == Target::kVocabulary) fail_vocabulary();
      if (!is_inner_list) fail_merges();
    }
    keys_.emplace_back();
    return true;
  }

  // Switches the target where model.vocab or model.merges begins.
  void enter(bool is_array) {
    if (depth() != 2 || keys_[0] != "model") return;
    if (keys_[1] == "vocab") {
      target_ = Target::kVocabulary;
      file_.vocabulary = {};
      file_.vocabulary.is_list = is_array;
      file_.has_vocabulary = true;
    } else if (keys_[1] == "merges" && is_array) {
      target_ = Target::kMerges;
      file_.merges = {};
      file_.has_merges = true;
    }
  }

  bool end() {
    keys_.pop_back();
    if (target_ == Target::kTree) {
      open_.pop_back();
    } else if (depth() == 2) {
      target_ = Target::kTree;
    }
    return true;
  }

  void end_scored_token() {
    if (!have_text_ || !score_) fail_vocabulary();
    file_.vocabulary.add(text_, static_cast<std::int64_t>(file_.vocabulary.entries.size()),
                         *score_);
    have_text_ = false;
    score_.reset();
  }

  void end_pair() {
    if (pair_.size() != 2) fail_merges();
    file_.merges.add(pair_[0], pair_[1]);
    pair_.clear();
  }

  TokenizerJsonFile& file_;
  Target target_ = Target::kTree;
  std::vector<std::string> keys_;  // of every open container, outermost first
  std::vector<json*> open_;        // the open containers of the tree
  std::string text_;
  bool have_text_ = false;
  std::optional<double> score_;
  std::vector<std::string> pair_;
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const InputFile file(path);
  return file.head(static_cast<std::size_t>(file.size()));
}

TokenizerJsonFile read_tokenizer_json(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  TokenizerJsonFile file;
  file.name = path.string();
  file.bytes = content.size();
  Reader reader(file);
  json::sax_parse(content.begin(), content.end(), &reader);
  return file;
}

json read_json(const std::filesystem::path& path) {
  return read_tokenizer_json(path).tree;
}

}  // namespace headrace
