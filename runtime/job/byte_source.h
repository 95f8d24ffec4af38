// The bytes of one input file, decompressed as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace headrace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills a part of out; 0 at the end. Throws std::invalid_argument naming the file for damaged or
  /// truncated compressed data, std::system_error where reading fails.
  virtual std::size_t read(std::span<char> out) = 0;
  /// Bytes taken from the file so far, as stored.
  virtual std::int64_t bytes_read() const = 0;
};

/// path: "-" is standard input; a name that ends in .gz or .zst is decompressed (several members or
/// frames follow each other as in one file).
std::unique_ptr<ByteSource> open_source(const std::string& path);

}  // namespace headrace
