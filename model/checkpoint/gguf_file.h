// The GGUF container: metadata, tensor table and where the tensors' bytes lie. Version 2 and 3,
// little-endian, split files included. Tokenizer, chat template and weights are all read through
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace headrace {

/// A metadata value. Integers of any width are std::int64_t or std::uint64_t, floats are double;
/// arrays hold one kind.
struct GgufValue {
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>,
               std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>
      value;
};

struct GgufTensor {
  std::string name;                 // GGUF's own: "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;  // outermost first (the file stores innermost first)
  std::uint32_t type = 0;           // ggml_type
  int file = 0;                     // index into files() of a split model
  std::uint64_t offset = 0;         // absolute, in that file
  std::uint64_t bytes = 0;
};

class GgufFile {
 public:
  /// Reads all headers. Counts and lengths are checked against the file's size before anything is
  /// allocated by them. Throws std::invalid_argument naming the file and what is wrong with it.
  explicit GgufFile(const std::filesystem::path& path);

  const std::vector<std::filesystem::path>& files() const { return files_; }
  /// Bytes from the start of each file to the end of its tensor table.
  const std::vector<std::uint64_t>& header_bytes() const { return header_bytes_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  /// nullptr where the key is absent.
  const GgufValue* find(std::string_view key) const;

  /// Typed look-ups: nullopt/nullptr where absent, std::invalid_argument naming key and type where
  /// the value is of another kind. integer() accepts any integer that fits.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const std::string* string(std::string_view key) const;
  const std::vector<std::string>* strings(std::string_view key) const;
  const std::vector<std::int64_t>* integers(std::string_view key) const;
  const std::vector<double>* numbers(std::string_view key) const;

 private:
  /// Reads the headers of files 2 to count of a split model.
  void add_splits(const std::string& prefix, int count);
  template <typename T>
  const T* find_as(std::string_view key, std::string_view wanted) const;

  std::vector<std::filesystem::path> files_;
  std::vector<std::uint64_t> header_bytes_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
};

}  // namespace headrace
