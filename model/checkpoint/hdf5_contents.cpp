#include "model/checkpoint/hdf5_contents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t kMaxText = 4096;        // of an attribute
constexpr std::size_t kMaxNumbers = 1 << 16;  // of an attribute; a slice a head needs some hundred
constexpr std::array kTypes{std::string_view("F32"), std::string_view("BF16"),
                            std::string_view("F16")};

/// A mistake in the file, found by this reader; HDF5's own findings are Hdf5Errors.
[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

Hdf5Id open_read_only(const fs::path& path) {
  keep_hdf5_quiet();
  Hdf5Id access(HR_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
#if H5_VERSION_GE(1, 10, 7)
  // Readers change nothing, and locks are missing on some network file systems.
  HR_HDF5(H5Pset_file_locking(access.get(), /*use_file_locking=*/false,
                              /*ignore_when_disabled=*/true));
#endif
  return Hdf5Id(HR_HDF5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get())));
}

std::optional<Hdf5Id> find_attribute(hid_t object, const char* name) {
  if (HR_HDF5(H5Aexists(object, name)) == 0) return std::nullopt;
  return Hdf5Id(HR_HDF5(H5Aopen(object, name, H5P_DEFAULT)));
}

Hdf5Id open_attribute(hid_t object, const char* name) {
  std::optional<Hdf5Id> attribute = find_attribute(object, name);
  if (!attribute) fail(fmt::format("attribute {} is missing", name));
  return std::move(*attribute);
}

std::size_t num_values(const Hdf5Id& attribute, const char* name) {
  const Hdf5Id space(HR_HDF5(H5Aget_space(attribute.get())));
  const hssize_t count = HR_HDF5(H5Sget_simple_extent_npoints(space.get()));
  if (static_cast<std::size_t>(count) > kMaxNumbers) {
    fail(fmt::format("attribute {} has {} values; at most {} are read", name, count, kMaxNumbers));
  }
  return static_cast<std::size_t>(count);
}

std::string text_attribute(hid_t object, const char* name) {
  const Hdf5Id attribute = open_attribute(object, name);
  const Hdf5Id type(HR_HDF5(H5Aget_type(attribute.get())));
  const std::size_t bytes = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      bytes > kMaxText || num_values(attribute, name) != 1) {
    fail(fmt::format("attribute {} is no text of a fixed length up to {} bytes", name, kMaxText));
  }
  std::string text(bytes, '\0');
  HR_HDF5(H5Aread(attribute.get(), type.get(), text.data()));
  return text.substr(0, text.find('\0'));
}

template <typename T>
std::vector<T> numbers_of(const Hdf5Id& attribute, const char* name) {
  static_assert(sizeof(T) == 8);
  const Hdf5Id type(HR_HDF5(H5Aget_type(attribute.get())));
  if (H5Tget_class(type.get()) != H5T_INTEGER) {
    fail(fmt::format("attribute {} holds no integers", name));
  }
  std::vector<T> numbers(num_values(attribute, name));
  const hid_t memory_type = std::is_signed_v<T> ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
  HR_HDF5(H5Aread(attribute.get(), memory_type, numbers.data()));
  return numbers;
}

std::uint64_t number_attribute(hid_t object, const char* name) {
  const auto numbers = numbers_of<std::uint64_t>(open_attribute(object, name), name);
  if (numbers.size() != 1) fail(fmt::format("attribute {} is no single number", name));
  return numbers.front();
}

std::vector<std::int64_t> shape_attribute(hid_t object, const char* name) {
  const std::optional<Hdf5Id> attribute = find_attribute(object, name);
  return attribute ? numbers_of<std::int64_t>(*attribute, name) : std::vector<std::int64_t>();
}

struct Link {
  std::string name;
  bool hard = false;
};

// The members of a group in order of name. Soft and external links would lead elsewhere.
std::vector<std::string> members(hid_t group, const std::string& place) {
  std::vector<Link> links;
  const auto take = [](hid_t, const char* name, const auto* info, void* all) -> herr_t {
    static_cast<std::vector<Link>*>(all)->push_back({name, info->type == H5L_TYPE_HARD});
    return 0;
  };
  HR_HDF5(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &links));
  std::vector<std::string> names;
  for (Link& link : links) {
    const bool is_name = is_plain_name(link.name) && link.name != "." && link.name != "..";
    if (!link.hard || !is_name) {
      fail(fmt::format("{}/{} is a link to elsewhere or has no plain name", place,
                       in_quotes(link.name)));
    }
    names.push_back(std::move(link.name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::int64_t> dataset_shape(hid_t dataset, const std::string& name) {
  const Hdf5Id space(HR_HDF5(H5Dget_space(dataset)));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 1 || rank > 2) fail(fmt::format("{} has {} dimensions; 1 or 2 are read", name, rank));
  std::array<hsize_t, 2> lengths{};
  HR_HDF5(H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr));
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t length = lengths[static_cast<std::size_t>(i)];
    if (length > static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(fmt::format("{} has a dimension of {}", name, length));
    }
    shape.push_back(static_cast<std::int64_t>(length));
  }
  return shape;
}

// Where the dataset's bytes lie; throws where they are not one piece of this file of the size that
// shape and type imply.
std::uint64_t dataset_offset(hid_t dataset, const std::string& name, std::uint64_t bytes,
                             std::uint64_t file_bytes) {
  const Hdf5Id creation(HR_HDF5(H5Dget_create_plist(dataset)));
  if (HR_HDF5(H5Pget_layout(creation.get())) != H5D_CONTIGUOUS ||
      HR_HDF5(H5Pget_external_count(creation.get())) != 0) {
    fail(fmt::format("{} is not stored in one piece", name));
  }
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  if (bytes == 0 && stored == 0) return 0;
  const haddr_t offset = H5Dget_offset(dataset);
  if (stored != bytes || offset == HADDR_UNDEF || offset > file_bytes ||
      bytes > file_bytes - offset) {
    fail(fmt::format("{} takes {} bytes by its shape, but {} of the file's {} are its own", name,
                     bytes, stored, file_bytes));
  }
  return offset;
}

std::uint64_t checked_bytes(const std::vector<std::int64_t>& shape, std::uint64_t value_bytes,
                            const std::string& name) {
  std::uint64_t bytes = value_bytes;
  for (const std::int64_t length : shape) {
    if (length < 1 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(length), &bytes)) {
      fail(fmt::format("{} has the shape [{}]", name, fmt::join(shape, ", ")));
    }
  }
  return bytes;
}

std::string stored_type_of(hid_t dataset, const std::string& name) {
  const Hdf5Id type(HR_HDF5(H5Dget_type(dataset)));
  for (const std::string_view candidate : kTypes) {
    if (HR_HDF5(H5Tequal(type.get(), hdf5_type(candidate).get())) > 0) {
      return std::string(candidate);
    }
  }
  fail(fmt::format("{} has a type that is none of {}", name, fmt::join(kTypes, ", ")));
}

void check_slices(const Hdf5Tensor& tensor, const std::vector<std::int64_t>& stored_shape,
                  const std::string& name) {
  const std::vector<std::int64_t>& bounds = tensor.slice_bounds;
  if (tensor.shape.size() != 2 || stored_shape.size() != 1 || bounds.size() < 2 ||
      bounds.front() != 0 || bounds.back() != tensor.shape[1] ||
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end()) {
    fail(fmt::format("{} has slice_bounds that do not cut its columns", name));
  }
}

// A quantised matrix: bytes, laid out as integer_layout.h says.
void read_quantized(hid_t dataset, const std::string& where, Hdf5Tensor& tensor) {
  const std::string kind = text_attribute(dataset, "quantization");
  if (kind != "int8" && kind != "int4") {
    fail(fmt::format("{} has the quantization {}; int8 and int4 are read", where, in_quotes(kind)));
  }
  tensor.type = kind == "int8" ? "INT8" : "INT4";
  const Hdf5Id type(HR_HDF5(H5Dget_type(dataset)));
  if (HR_HDF5(H5Tequal(type.get(), H5T_STD_U8LE)) == 0) {
    fail(fmt::format("{} is quantised, but no list of bytes", where));
  }
  tensor.shape = shape_attribute(dataset, "shape");
  const std::vector<std::int64_t> stored_shape = dataset_shape(dataset, where);
  check_slices(tensor, stored_shape, where);
  constexpr std::uint64_t kMostBytesOfValue = 5;  // a slice of one int8, with its scale
  checked_bytes(tensor.shape, kMostBytesOfValue, where);
  if (tensor.shape[1] > std::numeric_limits<std::int32_t>::max()) {
    fail(fmt::format("{} has {} columns", where, tensor.shape[1]));
  }
  tensor.bytes = tensor.implied_bytes();
  if (tensor.bytes != static_cast<std::uint64_t>(stored_shape.front())) {
    fail(fmt::format("{} holds {} bytes, but its shape and quantization imply {}", where,
                     stored_shape.front(), tensor.bytes));
  }
}

Hdf5Tensor read_tensor(hid_t group, const std::string& name, std::uint64_t file_bytes) {
  const std::string where = "tensor " + in_quotes(name);
  const Hdf5Id dataset(HR_HDF5(H5Dopen2(group, name.c_str(), H5P_DEFAULT)));
  Hdf5Tensor tensor;
  tensor.name = name;
  if (find_attribute(dataset.get(), "quantization")) {
    tensor.slice_bounds = shape_attribute(dataset.get(), "slice_bounds");
    read_quantized(dataset.get(), where, tensor);
    tensor.offset = dataset_offset(dataset.get(), where, tensor.bytes, file_bytes);
    tensor.checksum = number_attribute(dataset.get(), "checksum");
    return tensor;
  }
  tensor.type = stored_type_of(dataset.get(), where);
  const std::vector<std::int64_t> stored_shape = dataset_shape(dataset.get(), where);
  tensor.slice_bounds = shape_attribute(dataset.get(), "slice_bounds");
  tensor.shape =
      tensor.slice_bounds.empty() ? stored_shape : shape_attribute(dataset.get(), "shape");
  if (!tensor.slice_bounds.empty()) check_slices(tensor, stored_shape, where);
  const std::uint64_t value_bytes = hdf5_type_bytes(tensor.type);
  tensor.bytes = checked_bytes(tensor.shape, value_bytes, where);
  if (checked_bytes(stored_shape, value_bytes, where) != tensor.bytes) {
    fail(fmt::format("{} holds another number of values than its shape says", where));
  }
  tensor.offset = dataset_offset(dataset.get(), where, tensor.bytes, file_bytes);
  tensor.checksum = number_attribute(dataset.get(), "checksum");
  return tensor;
}

// Parts in order, none on another, all in the original file, and together what is stored.
void check_extents(const Hdf5File& file, const std::string& name) {
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;
  for (const FileExtent& extent : file.extents) {
    if (extent.begin < position || extent.end < extent.begin || extent.end > file.file_bytes) {
      fail(fmt::format("{} has extents that are no parts of it", name));
    }
    position = extent.end;
    bytes += extent.end - extent.begin;
  }
  if (bytes != file.bytes) {
    fail(fmt::format("{} stores {} bytes, but its extents take {}", name, file.bytes, bytes));
  }
}

Hdf5File read_file_entry(hid_t group, const std::string& name, std::uint64_t file_bytes) {
  const std::string where = "file " + in_quotes(name);
  const Hdf5Id dataset(HR_HDF5(H5Dopen2(group, name.c_str(), H5P_DEFAULT)));
  Hdf5File file;
  file.name = name;
  const Hdf5Id type(HR_HDF5(H5Dget_type(dataset.get())));
  const std::vector<std::int64_t> shape = dataset_shape(dataset.get(), where);
  if (shape.size() != 1 || HR_HDF5(H5Tequal(type.get(), H5T_STD_U8LE)) == 0) {
    fail(fmt::format("{} is no list of bytes", where));
  }
  file.bytes = static_cast<std::uint64_t>(shape.front());
  file.file_bytes = number_attribute(dataset.get(), "bytes");
  const auto numbers =
      numbers_of<std::uint64_t>(open_attribute(dataset.get(), "extents"), "extents");
  if (numbers.size() % 2 != 0) fail(fmt::format("{} has half an extent", where));
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    file.extents.push_back({numbers[i], numbers[i + 1]});
  }
  check_extents(file, where);
  file.offset = dataset_offset(dataset.get(), where, file.bytes, file_bytes);
  file.checksum = number_attribute(dataset.get(), "checksum");
  return file;
}

// The names of all datasets below a group, directories as groups.
void add_file_names(hid_t group, const std::string& prefix, std::vector<std::string>& names) {
  constexpr std::size_t kMaxDepth = 8;
  if (std::count(prefix.begin(), prefix.end(), '/') > static_cast<std::ptrdiff_t>(kMaxDepth)) {
    fail(fmt::format("files/{} nests deeper than {} levels", prefix, kMaxDepth));
  }
  for (const std::string& name : members(group, "files/" + prefix)) {
    const Hdf5Id object(HR_HDF5(H5Oopen(group, name.c_str(), H5P_DEFAULT)));
    if (H5Iget_type(object.get()) == H5I_GROUP) {
      add_file_names(object.get(), prefix + name + "/", names);
    } else {
      names.push_back(prefix + name);
    }
  }
}

void check_root(hid_t file) {
  if (H5Aexists(file, "format") <= 0 || text_attribute(file, "format") != kHdf5Format) {
    fail(
        "is an HDF5 file, but no Headrace checkpoint (headrace convert makes one from a Hugging "
        "Face directory or a .gguf file)");
  }
  const std::uint64_t version = number_attribute(file, "version");
  if (version != kHdf5Version && version != kHdf5IntegerVersion) {
    fail(fmt::format("has version {} of the format; this program reads versions {} and {}", version,
                     kHdf5Version, kHdf5IntegerVersion));
  }
  if (number_attribute(file, "complete") != 1) {
    fail("was not finished by the program that wrote it: convert the model again");
  }
}

Hdf5Quantization read_quantization(hid_t file) {
  Hdf5Quantization quantization{.type = text_attribute(file, "quantization"),
                                .compute_dtype = text_attribute(file, "compute_dtype")};
  if (quantization.compute_dtype != "float32" && quantization.compute_dtype != "bfloat16") {
    fail(fmt::format("has the compute_dtype {}; float32 and bfloat16 are read",
                     in_quotes(quantization.compute_dtype)));
  }
  return quantization;
}

void check_overlaps(const Hdf5Contents& contents) {
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (const Hdf5Tensor& t : contents.tensors) {
    ranges.push_back({t.offset, t.offset + t.bytes, &t.name});
  }
  for (const Hdf5File& f : contents.files) {
    if (f.bytes > 0) ranges.push_back({f.offset, f.offset + f.bytes, &f.name});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      fail(fmt::format("{} and {} overlap", in_quotes(*ranges[i - 1].name),
                       in_quotes(*ranges[i].name)));
    }
  }
}

/// Runs read(file, bytes in the file) on the opened file; whatever is wrong names the file.
template <typename Read>
auto with_file(const fs::path& path, const Read& read) {
  try {
    const Hdf5Id file = open_read_only(path);
    check_root(file.get());
    return read(file.get(), static_cast<std::uint64_t>(fs::file_size(path)));
  } catch (const Hdf5Error& error) {
    throw std::invalid_argument(
        fmt::format("{}: is damaged or truncated (HDF5: {})", path.string(), error.cause()));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::vector<std::string> all_file_names(hid_t file) {
  const Hdf5Id group(HR_HDF5(H5Gopen2(file, "files", H5P_DEFAULT)));
  std::vector<std::string> names;
  add_file_names(group.get(), "", names);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_hdf5(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream stream(path, std::ios::binary);
  std::string head(kSignature.size(), '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return stream.gcount() == static_cast<std::streamsize>(head.size()) && head == kSignature;
}

Hdf5Contents read_hdf5_contents(const fs::path& path) {
  return with_file(path, [](hid_t file, std::uint64_t file_bytes) {
    Hdf5Contents contents;
    contents.main_file = text_attribute(file, "main_file");
    contents.provenance = {.source = text_attribute(file, "source"),
                           .fingerprint = text_attribute(file, "source_fingerprint"),
                           .program = text_attribute(file, "program")};
    if (number_attribute(file, "version") == kHdf5IntegerVersion) {
      contents.quantization = read_quantization(file);
    }
    const Hdf5Id tensors(HR_HDF5(H5Gopen2(file, "tensors", H5P_DEFAULT)));
    for (const std::string& name : members(tensors.get(), "tensors")) {
      contents.tensors.push_back(read_tensor(tensors.get(), name, file_bytes));
    }
    const Hdf5Id files(HR_HDF5(H5Gopen2(file, "files", H5P_DEFAULT)));
    for (const std::string& name : all_file_names(file)) {
      contents.files.push_back(read_file_entry(files.get(), name, file_bytes));
    }
    check_overlaps(contents);
    return contents;
  });
}

fs::path hdf5_main_file(const fs::path& path) {
  return path / with_file(path, [](hid_t file, std::uint64_t /*file_bytes*/) {
           return text_attribute(file, "main_file");
         });
}

std::optional<Hdf5File> find_hdf5_file(const fs::path& path, const std::string& name) {
  return with_file(path, [&](hid_t file, std::uint64_t file_bytes) -> std::optional<Hdf5File> {
    const std::vector<std::string> names = all_file_names(file);
    if (!std::binary_search(names.begin(), names.end(), name)) return std::nullopt;
    const Hdf5Id files(HR_HDF5(H5Gopen2(file, "files", H5P_DEFAULT)));
    return read_file_entry(files.get(), name, file_bytes);
  });
}

std::vector<std::string> hdf5_file_names(const fs::path& path, std::string_view prefix) {
  return with_file(path, [&](hid_t file, std::uint64_t /*file_bytes*/) {
    std::vector<std::string> names = all_file_names(file);
    std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
    return names;
  });
}

}  // namespace headrace
