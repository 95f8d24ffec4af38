#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

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

/// Where the word (or number) around a place begins and ends.
std::pair<std::size_t, std::size_t> word_around(std::string_view bytes, std::size_t at) {
  constexpr std::string_view kBetween(" \n\t{}[]()\",:|=%\0", 16);
  const std::size_t before = bytes.substr(0, at).find_last_of(kBetween);
  const std::size_t end = bytes.find_first_of(kBetween, at);
  return {before == std::string_view::npos ? 0 : before + 1, std::min(end, bytes.size())};
}

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
  switch (below(6)) {
    case 0:
      return change_bytes(bytes, at);
    case 1:
      return move_bytes(bytes, at);
    case 2:
      return put_text(bytes, at);
    default:
      return exchange_word(bytes, at);
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

// Text stays well formed, so that the damage gets beyond a parser.
void Mutator::exchange_word(std::string& bytes, std::size_t at) {
  const auto [begin, end] = word_around(bytes, at);
  std::string other;
  if (below(4) == 0) {
    other = std::to_string(kNumbers[below(kNumbers.size())]);
  } else {
    const std::string& source = material_.sound[below(material_.sound.size())];
    const auto [first, last] = word_around(source, below(source.size()));
    other = source.substr(first, std::min<std::size_t>(last - first, 200));
  }
  bytes.replace(begin, end - begin, other);
}

}  // namespace headrace
