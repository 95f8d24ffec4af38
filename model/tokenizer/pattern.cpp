#include "model/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <stdexcept>

#include "model/tokenizer/oniguruma.h"
#include "model/tokenizer/scanners.h"
#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

// Adds a match and the gap before it; `covered` is where the last match ended.
void add_match(std::size_t begin, std::size_t end, std::size_t& covered, std::vector<Match>& out) {
  if (covered != begin) out.push_back({.begin = covered, .end = begin, .is_match = false});
  out.push_back({.begin = begin, .end = end, .is_match = true});
  covered = end;
}

void add_last_gap(std::string_view text, std::size_t covered, std::vector<Match>& out) {
  if (covered != text.size()) {
    out.push_back({.begin = covered, .end = text.size(), .is_match = false});
  }
}

class CharPattern final : public Pattern {
 public:
  explicit CharPattern(bool (*accepts)(char32_t)) : accepts_(accepts) {}

  void find(std::string_view text, std::vector<Match>& out) const override {
    std::size_t covered = 0;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t begin = i;
      if (accepts_(next_char(text, i))) add_match(begin, i, covered, out);
    }
    add_last_gap(text, covered, out);
  }

 private:
  bool (*accepts_)(char32_t);
};

class LiteralPattern final : public Pattern {
 public:
  explicit LiteralPattern(std::string text) : text_(std::move(text)) {}

  void find(std::string_view text, std::vector<Match>& out) const override {
    std::size_t covered = 0;
    for (std::size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, covered)) {
      add_match(at, at + text_.size(), covered, out);
    }
    add_last_gap(text, covered, out);
  }

 private:
  std::string text_;
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// Working memory of one thread, for any expression: a match's bounds and a stack that grows for
// texts on which an expression goes back far.
struct RegexMemory {
  std::unique_ptr<pcre2_match_data, FreeMatchData> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeContext> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack{
      pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{64} << 20, nullptr)};

  RegexMemory() {
    if (data == nullptr || context == nullptr || stack == nullptr) throw std::bad_alloc();
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexMemory& regex_memory() {
  thread_local RegexMemory memory;
  return memory;
}

std::string pcre_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class PcrePattern final : public Pattern {
 public:
  explicit PcrePattern(const std::string& expression) : expression_(expression) {
    const std::string translated = pcre_from_oniguruma(expression);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &error, &offset, nullptr));
    if (code_ == nullptr) {
      throw std::invalid_argument(
          fmt::format("regular expression {}: {}", shown_text(expression), pcre_message(error)));
    }
    // Where there is no just-in-time compiler the interpreter runs the expression.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  void find(std::string_view text, std::vector<Match>& out) const override {
    if (text.empty()) return;
    std::size_t covered = 0;
    std::size_t from = 0;
    bool matched_before = false;
    while (from <= text.size()) {
      const auto [begin, end] = search(text, from);
      if (begin == std::string_view::npos) break;
      // An empty match right behind a match is none; the search goes on a character further.
      if (begin == end && matched_before && covered == end) {
        from += from < text.size() ? utf8_length(text[from]) : 1;
        continue;
      }
      add_match(begin, end, covered, out);
      matched_before = true;
      from = end;
    }
    add_last_gap(text, covered, out);
  }

 private:
  std::pair<std::size_t, std::size_t> search(std::string_view text, std::size_t from) const {
    RegexMemory& memory = regex_memory();
    const int found =
        pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK, memory.data.get(), memory.context.get());
    if (found == PCRE2_ERROR_NOMATCH) return {std::string_view::npos, std::string_view::npos};
    if (found < 0) {
      throw std::invalid_argument(
          fmt::format("regular expression {} gives up on a text of {} bytes: {}",
                      shown_text(expression_), text.size(), pcre_message(found)));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory.data.get());
    return {bounds[0], bounds[1]};
  }

  std::string expression_;
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

class ScannerPattern final : public Pattern {
 public:
  explicit ScannerPattern(Scanner scanner) : scanner_(scanner) {}

  void find(std::string_view text, std::vector<Match>& out) const override {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = scanner_(text, begin);
      out.push_back({.begin = begin, .end = end, .is_match = true});
      begin = end;
    }
  }

 private:
  Scanner scanner_;
};

}  // namespace

std::unique_ptr<Pattern> char_pattern(bool (*accepts)(char32_t)) {
  return std::make_unique<CharPattern>(accepts);
}

std::unique_ptr<Pattern> literal_pattern(std::string text) {
  if (text.empty()) return pcre_pattern(text);
  return std::make_unique<LiteralPattern>(std::move(text));
}

std::unique_ptr<Pattern> regex_pattern(const std::string& expression) {
  if (const Scanner scanner = find_scanner(expression)) {
    return std::make_unique<ScannerPattern>(scanner);
  }
  return pcre_pattern(expression);
}

std::unique_ptr<Pattern> pcre_pattern(const std::string& expression) {
  return std::make_unique<PcrePattern>(expression);
}

std::string replace_matches(std::string_view text, const Pattern& pattern,
                            std::string_view replacement) {
  std::vector<Match> matches;
  pattern.find(text, matches);
  std::string out;
  out.reserve(text.size());
  for (const Match& match : matches) {
    out += match.is_match ? replacement : text.substr(match.begin, match.end - match.begin);
  }
  return out;
}

}  // namespace headrace
