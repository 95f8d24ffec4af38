// A chat template: Jinja source turned into the text of a prompt, byte for byte as jinja2 does in
// transformers' environment (trim_blocks, lstrip_blocks, its tojson, strftime_now,
// raise_exception).
//
// All of jinja2's language but: inheritance and inclusion (block, extends, include, import),
// autoescape, the filters pprint, random, striptags, urlize and wordwrap, lipsum, str.encode and
// str.translate, \N{...} in strings, and integers beyond 126 bits. Each is an error that names it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace headrace {

/// What a template said through raise_exception, word for word, or "NAME:LINE: " and why rendering
/// failed: an error of one request.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Immutable after construction; render() may be called from any thread.
class ChatTemplate {
 public:
  /// Parses the source. Throws std::invalid_argument "NAME:LINE: ..." for a syntax error, or naming
  /// a construct that is not supported.
  ChatTemplate(std::string_view source, std::string name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  struct Limits {
    std::size_t output_bytes = 64U << 20;
    std::size_t steps = 20'000'000;  // statements and expressions evaluated
  };

  /// context: an object with messages, tools, add_generation_prompt, bos_token, ... Key order
  /// counts. now_s: seconds since the epoch (local civil time already) that strftime_now formats.
  /// Throws TemplateError.
  std::string render(const nlohmann::ordered_json& context, std::int64_t now_s,
                     Limits limits) const;
  std::string render(const nlohmann::ordered_json& context, std::int64_t now_s) const {
    return render(context, now_s, Limits{});
  }

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace headrace
