// Little-endian bytes in and out of step messages. The reader checks every length before it uses
// it, and names the field when something is wrong.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace headrace {

static_assert(std::endian::native == std::endian::little,
              "messages are copied as they lie in memory");

/// Appends plain values to a byte vector.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  template <typename T>
  void put(T value) {
    put_all(std::span<const T>(&value, 1));
  }

  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    if (values.empty()) return;
    const std::size_t begin = out_.size();
    out_.resize(begin + values.size_bytes());
    std::memcpy(out_.data() + begin, values.data(), values.size_bytes());
  }

 private:
  std::vector<std::byte>& out_;
};

/// Reads plain values from a message; throws std::runtime_error "<message>: <field> ...".
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const char* message)
      : bytes_(bytes), message_(message) {}

  [[noreturn]] void fail(const char* field, const std::string& why) const {
    throw std::runtime_error(std::string(message_) + ": " + field + " " + why);
  }

  /// Fails unless condition holds. why says what is wrong.
  void require(bool condition, const char* field, const char* why) const {
    if (!condition) fail(field, why);
  }

  template <typename T>
  T get(const char* field) {
    static_assert(std::is_arithmetic_v<T>);
    need(1, sizeof(T), field);
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }

  template <typename T>
  void get_all(std::size_t count, std::vector<T>& out, const char* field) {
    static_assert(std::is_arithmetic_v<T>);
    need(count, sizeof(T), field);
    out.resize(count);
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }

  /// Fails unless count items of at least item_bytes each can still follow.
  void need(std::size_t count, std::size_t item_bytes, const char* field) const {
    if (count > bytes_.size() / item_bytes) {
      fail(field, "needs " + std::to_string(count) + " items of " + std::to_string(item_bytes) +
                      " bytes, only " + std::to_string(bytes_.size()) + " bytes are left");
    }
  }

  std::size_t num_left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const char* message_;
};

}  // namespace headrace
