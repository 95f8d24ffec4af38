// A message in Google's protocol buffer encoding, field by field, as far as SentencePiece's models
// use it: https://protobuf.dev/programming-guides/encoding. Every length is checked against the
// bytes that are there, and nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace {

class ProtobufReader {
 public:
  /// offset: of the message in its file, for complaints.
  explicit ProtobufReader(std::string_view message, std::size_t offset = 0)
      : message_(message), offset_(offset) {}

  /// Goes to the next field; false at the end of the message. This and the functions below throw
  /// std::invalid_argument with a byte's offset for what is damaged or of another type.
  bool next();

  /// The field's number in its message's definition.
  std::uint32_t field() const { return field_; }

  // The field's value.
  std::int64_t integer() const;
  bool boolean() const { return integer() != 0; }
  float float32() const;
  std::string_view bytes() const;
  ProtobufReader message() const;

 private:
  enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  std::uint64_t varint();
  std::string_view take(std::uint64_t size);
  void require(Kind kind) const;
  [[noreturn]] void fail(std::string_view what) const;

  std::string_view message_;
  std::size_t offset_;
  std::size_t position_ = 0;
  std::uint32_t field_ = 0;
  Kind kind_ = Kind::kVarint;
  std::uint64_t number_ = 0;  // of a varint
  std::string_view bytes_;    // of the other kinds
};

}  // namespace headrace
