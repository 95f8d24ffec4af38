#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace headrace {
namespace {

constexpr std::array<std::uint64_t, 14> kNumbers = {0,
                                                    1,
                                                    0x7f,
                                                    0x80,
                                                    0xff,
                                                    0x7fff,
                                                    0xffff,
                                                    0x7fffffff,
                                                    0x80000000,
                                                    0xffffffff,
                                                    0x7fffffffffffffff,
                                                    0x8000000000000000,
                                                    0xffffffffffffffff,
                                                    0xfffffffffffffff8};
constexpr std::string_view kMarks("{}[]\",:\\-+0919.eEu% \n\xC3\xA9\xff\0", 25);

std::string little_endian(std::uint64_t value, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

}  // namespace

std::string Mutator::next() {
  std::string bytes = material_.sound[below(material_.sound.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    change(bytes);
    if (bytes.empty()) bytes = "x";
  }
  return bytes;
}

std::size_t Mutator::below(std::size_t limit) {
  return static_cast<std::size_t>(random_() % std::max<std::size_t>(limit, 1));
}

void Mutator::change(std::string& bytes) {
  const std::size_t at = below(std::min(material_.range, bytes.size()));
  switch (below(4)) {
    case 0:
      return change_bytes(bytes, at);
    case 1:
      return move_bytes(bytes, at);
    default:
      return put_text(bytes, at);
  }
}

void Mutator::change_bytes(std::string& bytes, std::size_t at) {
  const std::uint64_t number = kNumbers[below(kNumbers.size())];
  const std::size_t width = std::min(std::size_t{1} << below(4), bytes.size() - at);
  switch (below(3)) {
    case 0:
      bytes[at] = static_cast<char>(random_());
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    default:
      bytes.replace(at, width, little_endian(number, width));
  }
}

void Mutator::move_bytes(std::string& bytes, std::size_t at) {
  const std::string& other = material_.sound[below(material_.sound.size())];
  switch (below(4)) {
    case 0:
      bytes.resize(1 + below(bytes.size()));
      break;
    case 1:
      bytes.erase(at, 1 + below(16));
      break;
    case 2:
      bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(64)));
      break;
    default:
      bytes.insert(at, other.substr(below(other.size()), 1 + below(64)));
  }
}

void Mutator::put_text(std::string& bytes, std::size_t at) {
  const std::size_t kind = below(material_.words.empty() ? 3 : 6);
  if (kind == 0) {
    bytes[at] = kMarks[below(kMarks.size())];
  } else if (kind == 1) {
    bytes.insert(at, 1, kMarks[below(kMarks.size())]);
  } else if (kind == 2) {
    bytes.insert(at, std::to_string(kNumbers[below(kNumbers.size())]));
  } else {
    bytes.replace(at, below(5), material_.words[below(material_.words.size())]);
  }
}

}  // namespace headrace
