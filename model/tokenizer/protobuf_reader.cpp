#include "model/tokenizer/protobuf_reader.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

namespace headrace {

bool ProtobufReader::next() {
  if (position_ == message_.size()) return false;
  // A key is the field's number and, in three bits, how its value is written.
  const std::uint64_t key = varint();
  if (key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3) fail("a field number that cannot be");
  field_ = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      kind_ = Kind::kVarint;
      number_ = varint();
      break;
    case 1:
      kind_ = Kind::kFixed64;
      bytes_ = take(8);
      break;
    case 2:
      kind_ = Kind::kBytes;
      bytes_ = take(varint());
      break;
    case 5:
      kind_ = Kind::kFixed32;
      bytes_ = take(4);
      break;
    default:
      fail("a kind of field that SentencePiece does not use");
  }
  return true;
}

std::int64_t ProtobufReader::integer() const {
  require(Kind::kVarint);
  return static_cast<std::int64_t>(number_);
}

float ProtobufReader::float32() const {
  require(Kind::kFixed32);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes_[i])) << 8 * i;
  }
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufReader::bytes() const {
  require(Kind::kBytes);
  return bytes_;
}

ProtobufReader ProtobufReader::message() const {
  require(Kind::kBytes);
  return ProtobufReader(bytes_, offset_ + position_ - bytes_.size());
}

// Seven bits a byte, the lowest first; the top bit says that another byte follows.
std::uint64_t ProtobufReader::varint() {
  constexpr std::size_t kLongest = 10;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLongest; ++i) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << 7 * i;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

std::string_view ProtobufReader::take(std::uint64_t size) {
  const std::size_t left = message_.size() - position_;
  if (size > left) fail(fmt::format("{} bytes are announced where {} are left", size, left));
  const std::string_view taken = message_.substr(position_, size);
  position_ += size;
  return taken;
}

void ProtobufReader::require(Kind kind) const {
  if (kind_ != kind) fail(fmt::format("field {} is of another type", field_));
}

void ProtobufReader::fail(std::string_view what) const {
  throw std::invalid_argument(fmt::format("byte {}: {}", offset_ + position_, what));
}

}  // namespace headrace
