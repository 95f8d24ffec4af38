#include "model/chat/unicode.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "model/chat/special_casing.h"

namespace headrace::jinja {
namespace {

bool continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

utf8proc_category_t category(CodePoint point) {
  return utf8proc_category(point);
}

const SpecialCasing* special_casing(CodePoint point) {
  if (point < kSpecialCasing.front().letter) return nullptr;
  const auto* at = std::lower_bound(
      kSpecialCasing.begin(), kSpecialCasing.end(), point,
      [](const SpecialCasing& entry, CodePoint letter) { return entry.letter < letter; });
  return at != kSpecialCasing.end() && at->letter == point ? at : nullptr;
}

void append_upper(std::string& out, CodePoint point) {
  if (const SpecialCasing* special = special_casing(point)) {
    out += special->upper;
  } else {
    append_code_point(out, utf8proc_toupper(point));
  }
}

void append_title(std::string& out, CodePoint point) {
  if (const SpecialCasing* special = special_casing(point)) {
    out += special->title;
  } else {
    append_code_point(out, utf8proc_totitle(point));
  }
}

// Unicode's Case_Ignorable, which the rule for the final sigma skips.
bool case_ignorable(CodePoint point) {
  switch (category(point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  return point == '\'' || point == '.' || point == ':' || point == 0xB7 || point == 0x2018 ||
         point == 0x2019 || point == 0x2024 || point == 0x2027;
}

bool sigma_is_final(std::string_view text, std::size_t begin, std::size_t end) {
  bool cased_before = false;
  for (std::size_t at = begin; at > 0;) {
    const CodePoint point = previous_code_point(text, at);
    if (case_ignorable(point)) continue;
    cased_before = is_cased(point);
    break;
  }
  if (!cased_before) return false;
  for (std::size_t at = end; at < text.size();) {
    const CodePoint point = next_code_point(text, at);
    if (case_ignorable(point)) continue;
    return !is_cased(point);
  }
  return true;
}

// Lower case of the code point at [begin, end) of text.
void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t at = begin;
  const CodePoint point = next_code_point(text, at);
  constexpr CodePoint kCapitalSigma = 0x3A3;
  constexpr CodePoint kFinalSigma = 0x3C2;
  constexpr CodePoint kCapitalIWithDot = 0x130;
  if (point == kCapitalSigma && sigma_is_final(text, begin, end)) {
    append_code_point(out, kFinalSigma);
  } else if (point == kCapitalIWithDot) {
    out += "i\u0307";
  } else {
    append_code_point(out, utf8proc_tolower(point));
  }
}

bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

char ascii_upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !continuation(c); });
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<signed char>(text[at]) >= 0) {
      ++at;
      continue;
    }
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t taken =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (taken <= 0) return at;
    at += static_cast<std::size_t>(taken);
  }
  return std::nullopt;
}

CodePoint next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t offset) -> CodePoint {
    return offset < text.size() ? static_cast<unsigned char>(text[offset]) : 0;
  };
  const CodePoint lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  if (lead < 0xE0) {
    const CodePoint point = (lead & 0x1F) << 6 | (byte(at + 1) & 0x3F);
    at += 2;
    return point;
  }
  if (lead < 0xF0) {
    const CodePoint point =
        (lead & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
    at += 3;
    return point;
  }
  const CodePoint point = (lead & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 |
                          (byte(at + 2) & 0x3F) << 6 | (byte(at + 3) & 0x3F);
  at += 4;
  return point;
}

CodePoint previous_code_point(std::string_view text, std::size_t& end) {
  std::size_t begin = end - 1;
  while (begin > 0 && continuation(text[begin])) --begin;
  end = begin;
  return next_code_point(text, begin);
}

void append_code_point(std::string& out, CodePoint point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::size_t byte_offset(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    ++at;
    while (at < text.size() && continuation(text[at])) ++at;
  }
  return at;
}

bool is_space(CodePoint point) {
  if (point < 0x80)
    return point == ' ' || (point >= 9 && point <= 13) || (point >= 28 && point <= 31);
  return point == 0x85 || point == 0xA0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_line_break(CodePoint point) {
  return (point >= 10 && point <= 13) || (point >= 28 && point <= 30) || point == 0x85 ||
         point == 0x2028 || point == 0x2029;
}

bool is_alpha(CodePoint point) {
  switch (category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(CodePoint point) {
  return category(point) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(CodePoint point) {
  const bool raised = point == 0xB2 || point == 0xB3 || point == 0xB9 || point == 0x2070 ||
                      (point >= 0x2074 && point <= 0x2079) || (point >= 0x2080 && point <= 0x2089);
  const bool enclosed =
      (point >= 0x2460 && point <= 0x2468) || (point >= 0x2474 && point <= 0x247C) ||
      (point >= 0x2488 && point <= 0x2490) || point == 0x24EA ||
      (point >= 0x24F5 && point <= 0x24FD) || point == 0x24FF ||
      (point >= 0x2776 && point <= 0x277E) || (point >= 0x2780 && point <= 0x2788) ||
      (point >= 0x278A && point <= 0x2792);
  return is_decimal(point) || raised || enclosed;
}

bool is_numeric(CodePoint point) {
  const utf8proc_category_t found = category(point);
  return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL ||
         found == UTF8PROC_CATEGORY_NO;
}

bool is_alnum(CodePoint point) {
  return is_alpha(point) || is_numeric(point);
}

bool is_upper(CodePoint point) {
  return category(point) == UTF8PROC_CATEGORY_LU || (point >= 0x2160 && point <= 0x216F) ||
         (point >= 0x24B6 && point <= 0x24CF);
}

bool is_lower(CodePoint point) {
  return category(point) == UTF8PROC_CATEGORY_LL || point == 0xAA || point == 0xBA ||
         (point >= 0x2B0 && point <= 0x2B8) || (point >= 0x2170 && point <= 0x217F) ||
         (point >= 0x24D0 && point <= 0x24E9);
}

bool is_title(CodePoint point) {
  return category(point) == UTF8PROC_CATEGORY_LT;
}

bool is_cased(CodePoint point) {
  return is_upper(point) || is_lower(point) || is_title(point);
}

bool is_printable(CodePoint point) {
  if (point < 0x7F) return point >= ' ';
  switch (category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_word(CodePoint point) {
  return point == '_' || is_alnum(point);
}

bool is_identifier_start(CodePoint point) {
  return point == '_' || is_alpha(point) || category(point) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(CodePoint point) {
  if (is_identifier_start(point)) return true;
  switch (category(point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return point == 0xB7;
  }
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (all_ascii(text)) {
    for (const char c : text) out += ascii_upper(c);
    return out;
  }
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (all_ascii(text)) {
    for (const char c : text) out += ascii_lower(c);
    return out;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    append_lower(out, text, begin, at);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool after_cased = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const CodePoint point = next_code_point(text, at);
    if (after_cased) {
      append_lower(out, text, begin, at);
    } else {
      append_title(out, point);
    }
    after_cased = is_cased(point);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const CodePoint point = next_code_point(text, at);
    if (begin == 0) {
      append_title(out, point);
    } else {
      append_lower(out, text, begin, at);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const CodePoint point = next_code_point(text, at);
    if (is_upper(point)) {
      append_lower(out, text, begin, at);
    } else if (is_lower(point)) {
      append_upper(out, point);
    } else {
      append_code_point(out, point);
    }
  }
  return out;
}

std::string fold_case(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(folded, &std::free);
  if (size < 0) return to_lower(text);
  return {reinterpret_cast<const char*>(folded), static_cast<std::size_t>(size)};
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  const auto strips = [&](CodePoint point) {
    if (!chars) return is_space(point);
    for (std::size_t at = 0; at < chars->size();) {
      if (next_code_point(*chars, at) == point) return true;
    }
    return false;
  };
  if (side != Side::kRight) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      std::size_t after = begin;
      if (!strips(next_code_point(text, after))) break;
      begin = after;
    }
    text.remove_prefix(begin);
  }
  if (side != Side::kLeft) {
    std::size_t end = text.size();
    while (end > 0) {
      std::size_t before = end;
      if (!strips(previous_code_point(text, before))) break;
      end = before;
    }
    text = text.substr(0, end);
  }
  return text;
}

}  // namespace headrace::jinja
