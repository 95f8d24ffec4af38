#include "model/checkpoint/gguf_file.h"

#include <fmt/format.h>

#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/gguf_header.h"

namespace headrace {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", path.string(), what));
}

// A value that is there but of another kind than asked for.
[[noreturn]] void fail_kind(const std::filesystem::path& path, std::string_view key,
                            std::string_view wanted) {
  fail(path, fmt::format("key {} must be {}", in_quotes(key), wanted));
}

std::optional<std::int64_t> as_integer(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return *number;
  const auto* number = std::get_if<std::uint64_t>(&value.value);
  if (number != nullptr &&
      *number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

// The place of a file among those of a split model: "name-00002-of-00005.gguf".
struct SplitName {
  std::string prefix;
  int number = 0;  // from 1
  int count = 0;
};

std::optional<SplitName> split_name(const std::filesystem::path& path) {
  constexpr std::string_view kShape = "-#####-of-#####.gguf";
  const std::string name = path.filename().string();
  if (name.size() < kShape.size()) return std::nullopt;
  const std::string tail = name.substr(name.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = tail[i] >= '0' && tail[i] <= '9';
    if (kShape[i] == '#' ? !digit : tail[i] != kShape[i]) return std::nullopt;
  }
  return SplitName{name.substr(0, name.size() - kShape.size()), std::stoi(tail.substr(1, 5)),
                   std::stoi(tail.substr(10, 5))};
}

std::filesystem::path split_path(const std::filesystem::path& first, const SplitName& name,
                                 int number) {
  return first.parent_path() /
         fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, number, name.count);
}

std::int64_t split_value(const std::filesystem::path& path, const GgufHeader& header,
                         std::string_view key, std::int64_t absent) {
  const auto found = header.metadata.find(key);
  if (found == header.metadata.end()) return absent;
  const std::optional<std::int64_t> value = as_integer(found->second);
  if (!value) fail_kind(path, key, "an integer");
  return *value;
}

// How many files belong to the model that starts with this one. Throws where it does not start
// here.
SplitName check_first_split(const std::filesystem::path& path, const GgufHeader& header,
                            std::int64_t count) {
  const std::optional<SplitName> name = split_name(path);
  if (!name || name->count != count) {
    fail(path, fmt::format("is one of {} files of a split model; their names must end in "
                           "-00001-of-{:05}.gguf and so on",
                           count, count));
  }
  if (name->number != 1 || split_value(path, header, "split.no", 0) != 0) {
    fail(path, fmt::format("is file {} of a split model; name the first one, {}", name->number,
                           split_path(path, *name, 1).filename().string()));
  }
  return *name;
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) {
  GgufHeader header = read_gguf_header(InputFile(path));
  files_ = {path};
  header_bytes_ = {header.header_bytes};
  tensors_ = std::move(header.tensors);
  constexpr std::int64_t kMaxFiles = 99999;  // what five digits can count
  const std::int64_t count = split_value(path, header, "split.count", 1);
  if (count < 0 || count > kMaxFiles) {
    fail(path, fmt::format("split.count is {}; 1 to {} are possible", count, kMaxFiles));
  }
  if (count > 1) add_splits(check_first_split(path, header, count).prefix, static_cast<int>(count));
  const std::int64_t expected =
      split_value(path, header, "split.tensors.count", static_cast<std::int64_t>(tensors_.size()));
  if (expected != static_cast<std::int64_t>(tensors_.size())) {
    fail(path, fmt::format("split.tensors.count is {}, but the {} files hold {} tensors", expected,
                           files_.size(), tensors_.size()));
  }
  metadata_ = std::move(header.metadata);
}

void GgufFile::add_splits(const std::string& prefix, int count) {
  const std::filesystem::path first = files_.front();
  std::set<std::string> names;
  for (const GgufTensor& tensor : tensors_) names.insert(tensor.name);
  for (int number = 2; number <= count; ++number) {
    const std::filesystem::path path = split_path(first, {prefix, number, count}, number);
    GgufHeader header = read_gguf_header(InputFile(path));
    if (split_value(path, header, "split.count", -1) != count ||
        split_value(path, header, "split.no", -1) != number - 1) {
      fail(path, fmt::format("does not say that it is file {} of {} (split.no {}, split.count {})",
                             number, count, number - 1, count));
    }
    for (GgufTensor& tensor : header.tensors) {
      if (!names.insert(tensor.name).second) {
        fail(path, fmt::format("tensor {} is in an earlier file too", in_quotes(tensor.name)));
      }
      tensor.file = number - 1;
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(path);
    header_bytes_.push_back(header.header_bytes);
  }
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

template <typename T>
const T* GgufFile::find_as(std::string_view key, std::string_view wanted) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const T* typed = std::get_if<T>(&value->value);
  if (typed == nullptr) fail_kind(files_.front(), key, wanted);
  return typed;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = as_integer(*value);
  if (!number) fail_kind(files_.front(), key, "an integer that fits 63 bits");
  return number;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  const std::optional<std::int64_t> integer = as_integer(*value);
  if (!integer) fail_kind(files_.front(), key, "a number");
  return static_cast<double>(*integer);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const bool* value = find_as<bool>(key, "a boolean");
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

const std::string* GgufFile::string(std::string_view key) const {
  return find_as<std::string>(key, "a string");
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  return find_as<std::vector<std::string>>(key, "an array of strings");
}

const std::vector<std::int64_t>* GgufFile::integers(std::string_view key) const {
  return find_as<std::vector<std::int64_t>>(key, "an array of integers");
}

const std::vector<double>* GgufFile::numbers(std::string_view key) const {
  return find_as<std::vector<double>>(key, "an array of floats");
}

}  // namespace headrace
