#include "model/checkpoint/appearance.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace headrace {
namespace {

struct Signature {
  std::string_view start;
  std::string_view what;
};

// Checked in order against the first bytes, blanks skipped and letters lowered.
constexpr std::array kSignatures{
    Signature{"<!doctype html", "an HTML page (a failed download?)"},
    Signature{"<html", "an HTML page (a failed download?)"},
    Signature{"<?xml", "an XML document (a failed download?)"},
    Signature{"version https://git-lfs",
              "a git-lfs pointer, not the file itself (run git lfs pull)"},
    Signature{"gguf", "a GGUF file"},
    Signature{"\x89hdf", "an HDF5 file"},
    Signature{"pk\x03\x04", "a zip archive or a PyTorch checkpoint (pickle), which is not read"},
    Signature{"\x1f\x8b", "a gzip archive"},
    Signature{"\x28\xb5\x2f\xfd", "a zstd archive"},
    Signature{"\x80\x02", "a Python pickle, which is not read"},
    Signature{"{", kJsonAppearance},
};

// Length of the well-formed character at the start of text, 0 where there is none.
std::size_t character_bytes(std::string_view text, utf8proc_int32_t& character) {
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &character);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool is_control(utf8proc_int32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
         character == 0x2029;
}

// A safetensors file opens with the length of its header and the header's brace.
bool looks_like_safetensors(std::string_view head) {
  return head.size() >= 16 && head[8] == '{' && head[9] == '"' &&
         head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

}  // namespace

std::string appearance(const InputFile& file) {
  if (file.size() == 0) return "an empty file";
  std::string head = file.head(64);
  if (looks_like_safetensors(head)) return std::string(kSafetensorsAppearance);
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; })) {
    return "a file of zero bytes (an unfinished download?)";
  }
  const std::size_t text = head.find_first_not_of(" \t\r\n");
  head.erase(0, text == std::string::npos ? 0 : text);
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Signature& signature : kSignatures) {
    if (head.starts_with(signature.start)) return std::string(signature.what);
  }
  return {};
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 120;  // tensor names have at most some 90
  std::string out = "\"";
  while (!text.empty() && out.size() < kMaxBytes) {
    utf8proc_int32_t character = 0;
    const std::size_t bytes = character_bytes(text, character);
    if (bytes == 0 || is_control(character)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return out + (text.empty() ? "\"" : "...\"");
}

bool is_plain_name(std::string_view text) {
  while (!text.empty()) {
    utf8proc_int32_t character = 0;
    const std::size_t bytes = character_bytes(text, character);
    if (bytes == 0 || is_control(character)) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace headrace
