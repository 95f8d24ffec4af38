#include "launch/device_profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "model/checkpoint/partial_file.h"
#include "runtime/job/hash.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kFormatKey = "headrace_device_profile";
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
constexpr std::size_t kWordDigits = 16;

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

const ordered_json& member(const ordered_json& object, const char* key) {
  if (!object.is_object()) refuse(fmt::format("an object with '{}' is expected", key));
  const auto found = object.find(key);
  if (found == object.end()) refuse(fmt::format("'{}' is missing", key));
  return *found;
}

std::int64_t integer(const ordered_json& object, const char* key, std::int64_t least,
                     std::int64_t most) {
  const ordered_json& value = member(object, key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  const std::int64_t number = fits ? value.get<std::int64_t>() : -1;
  if (!fits || number < least || number > most) {
    refuse(fmt::format("'{}' is {}, from {} to {} is accepted", key, value.dump(), least, most));
  }
  return number;
}

std::string text(const ordered_json& object, const char* key) {
  const ordered_json& value = member(object, key);
  if (!value.is_string()) refuse(fmt::format("'{}' is {}, a text is expected", key, value.dump()));
  return value.get<std::string>();
}

const ordered_json& list(const ordered_json& object, const char* key) {
  const ordered_json& value = member(object, key);
  if (!value.is_array()) refuse(fmt::format("'{}' is no list", key));
  return value;
}

// One of the values with these names.
template <class Value, std::size_t kCount>
using Names = std::array<std::pair<std::string_view, Value>, kCount>;

constexpr Names<DType, 3> kTypes{{{dtype_name(DType::kFloat32), DType::kFloat32},
                                  {dtype_name(DType::kBFloat16), DType::kBFloat16},
                                  {dtype_name(DType::kFloat16), DType::kFloat16}}};
constexpr Names<GemmRows, 3> kRows{{{"steady", GemmRows::kSteady},
                                    {"filled", GemmRows::kFilled},
                                    {"unsteady", GemmRows::kUnsteady}}};

template <class Value, std::size_t kCount>
Value named(const Names<Value, kCount>& names, const ordered_json& object, const char* key) {
  const std::string name = text(object, key);
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  refuse(fmt::format("'{}' is '{}', {}, {} or {} is accepted", key, name, names[0].first,
                     names[1].first, names[2].first));
}

template <class Value, std::size_t kCount>
std::string_view name_of(const Names<Value, kCount>& names, Value wanted) {
  const auto found =
      std::ranges::find(names, wanted, [](const auto& entry) { return entry.second; });
  return found->first;
}

std::string hexadecimal(const std::array<std::uint64_t, 8>& words) {
  std::string digits;
  for (const std::uint64_t word : words) digits += fmt::format("{:016x}", word);
  return digits;
}

std::array<std::uint64_t, 8> words_of(const std::string& digits) {
  std::array<std::uint64_t, 8> words{};
  const bool valid = digits.size() == words.size() * kWordDigits &&
                     digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!valid) refuse("'algorithm' is not 128 hexadecimal digits");
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = std::stoull(digits.substr(i * kWordDigits, kWordDigits), nullptr, 16);
  }
  return words;
}

ordered_json json_of(const GemmShape& shape, const GemmAnswer& answer) {
  return {{"n", shape.n},
          {"k", shape.k},
          {"stride", shape.stride},
          {"type", name_of(kTypes, shape.dtype)},
          {"alignment", shape.alignment},
          {"filled_rows", shape.filled_rows},
          {"algorithm", hexadecimal(answer.algorithm)},
          {"rows", name_of(kRows, answer.rows)},
          {"most_rows", answer.most_rows}};
}

GemmShape shape_of(const ordered_json& product) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const GemmShape shape{
      .n = integer(product, "n", 1, kMost),
      .k = integer(product, "k", 1, kMost),
      .stride = integer(product, "stride", 1, kMost),
      .dtype = named(kTypes, product, "type"),
      .alignment = static_cast<std::uint32_t>(integer(product, "alignment", 2, 16)),
      .filled_rows = integer(product, "filled_rows", 0, kMostTriedRows)};
  return shape;
}

GemmAnswer answer_of(const ordered_json& product, const GemmShape& shape) {
  const GemmRows rows = named(kRows, product, "rows");
  // What is filled up has room for no more; a row at a time always fits.
  const std::int64_t most =
      rows == GemmRows::kFilled ? std::max<std::int64_t>(shape.filled_rows, 1) : kMostTriedRows;
  return {.algorithm = words_of(text(product, "algorithm")),
          .rows = rows,
          .most_rows = integer(product, "most_rows", 1, most)};
}

std::string checksum_of(const ordered_json& products) {
  return hex(hash128(products.dump()));
}

void add_device(const ordered_json& entry, DeviceProfile& profile) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const ProfiledDevice device{
      .name = text(entry, "device"),
      .sm = static_cast<int>(integer(entry, "sm", 1, kMost)),
      .cublaslt = static_cast<std::uint64_t>(integer(entry, "cublaslt", 1, kMost)),
      .driver = static_cast<int>(integer(entry, "driver", 1, kMost))};
  const ordered_json& products = list(entry, "products");
  if (checksum_of(products) != text(entry, "checksum")) {
    refuse(fmt::format("the products of {} do not have their checksum", device.text()));
  }
  const auto [part, is_new] = profile.try_emplace(device);
  if (!is_new) refuse(fmt::format("{} is there twice", device.text()));
  for (const ordered_json& product : products) {
    const GemmShape shape = shape_of(product);
    if (!part->second.emplace(shape, answer_of(product, shape)).second) {
      refuse(fmt::format("a product of {} x {} is there twice", shape.n, shape.k));
    }
  }
}

}  // namespace

std::string ProfiledDevice::text() const {
  return fmt::format("{} (sm {}, cuBLASLt {}.{}.{}, driver for CUDA {}.{})", name, sm,
                     cublaslt / 10000, cublaslt / 100 % 100, cublaslt % 100, driver / 1000,
                     driver % 1000 / 10);
}

ProfiledDevice profiled_device(const CudaDevice& device) {
  const CudaLibraries libraries = cuda_libraries();
  return {.name = device.name,
          .sm = device.sm,
          .cublaslt = libraries.cublaslt,
          .driver = libraries.driver};
}

DeviceProfile parse_device_profile(std::string_view text, const std::string& name) {
  try {
    const ordered_json json = ordered_json::parse(text);
    integer(json, kFormatKey, kFormat, kFormat);
    DeviceProfile profile;
    for (const ordered_json& entry : list(json, "devices")) add_device(entry, profile);
    return profile;
  } catch (const ordered_json::exception& damage) {
    refuse(fmt::format("{}: is no device profile: {}", name, damage.what()));
  } catch (const std::invalid_argument& damage) {
    refuse(
        fmt::format("{}: is no device profile as headrace writes it: {}; without the file it is "
                    "made anew",
                    name, damage.what()));
  }
}

std::string device_profile_text(const DeviceProfile& profile) {
  ordered_json devices = ordered_json::array();
  for (const auto& [device, answers] : profile) {
    ordered_json products = ordered_json::array();
    for (const auto& [shape, answer] : answers) products.push_back(json_of(shape, answer));
    devices.push_back({{"device", device.name},
                       {"sm", device.sm},
                       {"cublaslt", device.cublaslt},
                       {"driver", device.driver},
                       {"checksum", checksum_of(products)},
                       {"products", std::move(products)}});
  }
  return ordered_json{{kFormatKey, kFormat}, {"devices", std::move(devices)}}.dump(1) + "\n";
}

std::string read_device_profile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, error) || access(folder.c_str(), W_OK) != 0) {
    refuse(fmt::format("--device-profile {}: nothing can be written in {}", path.string(),
                       folder.string()));
  }
  if (!std::filesystem::exists(path, error)) return device_profile_text({});
  const auto bytes = std::filesystem::is_regular_file(path, error)
                         ? static_cast<std::int64_t>(std::filesystem::file_size(path, error))
                         : -1;
  std::ifstream file(path, std::ios::binary);
  if (bytes < 0 || bytes > kMostBytes || !file) {
    refuse(fmt::format("{}: is no device profile that can be read", path.string()));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_to_device_profile(const std::filesystem::path& path, const DeviceProfile& found) {
  PartialFile file(path);  // which keeps other programs from it between reading and writing
  DeviceProfile merged = found;
  for (auto& [device, answers] : parse_device_profile(read_device_profile(path), path.string())) {
    merged[device].merge(answers);  // what was found stays
  }
  const std::string contents = device_profile_text(merged);
  file.write_at(0, std::as_bytes(std::span(contents)));
  file.commit();
}

}  // namespace headrace
