// Text as Python sees it, sequences of code points, on UTF-8 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::jinja {

using CodePoint = std::int32_t;

std::int64_t count_code_points(std::string_view text);
/// The byte offset of the first invalid byte, or nothing when text is UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);
/// Decodes the code point at `at` of valid UTF-8 and moves `at` behind it.
CodePoint next_code_point(std::string_view text, std::size_t& at);
/// Decodes the code point that ends at `end` and moves `end` to its first byte.
CodePoint previous_code_point(std::string_view text, std::size_t& end);
void append_code_point(std::string& out, CodePoint point);
/// The byte offset of code point number `index` (clamped to the end).
std::size_t byte_offset(std::string_view text, std::int64_t index);

bool is_space(CodePoint point);       // str.isspace
bool is_line_break(CodePoint point);  // where str.splitlines breaks
bool is_alpha(CodePoint point);       // str.isalpha
bool is_decimal(CodePoint point);     // str.isdecimal
bool is_digit(CodePoint point);       // str.isdigit
bool is_numeric(CodePoint point);     // str.isnumeric
bool is_alnum(CodePoint point);
bool is_cased(CodePoint point);
bool is_upper(CodePoint point);  // also titlecase letters count as cased, not as upper
bool is_lower(CodePoint point);
bool is_title(CodePoint point);
bool is_printable(CodePoint point);  // repr() shows it as it is
bool is_word(CodePoint point);       // \w of Python's re
bool is_identifier_start(CodePoint point);
bool is_identifier_part(CodePoint point);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        // str.title
std::string to_capitalized(std::string_view text);  // str.capitalize
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

enum class Side { kBoth, kLeft, kRight };
/// Without the characters of `chars` (whitespace when absent) at its sides.
std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars = {});

}  // namespace headrace::jinja
