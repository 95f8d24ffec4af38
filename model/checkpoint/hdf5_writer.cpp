#include "model/checkpoint/hdf5_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"

namespace headrace {
namespace {

// Pages of the file system: tensors start at them, so that they can be read and mapped as they lie.
constexpr hsize_t kAlignment = 4096;

// The file format of HDF5 1.8: the first in which all metadata carries checksums.
Hdf5Id create_file(const std::filesystem::path& path) {
  keep_hdf5_quiet();
  const Hdf5Id access(HR_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
  HR_HDF5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18));
  HR_HDF5(H5Pset_alignment(access.get(), kAlignment, kAlignment));
#if H5_VERSION_GE(1, 10, 7)
  // PartialFile holds the lock.
  HR_HDF5(H5Pset_file_locking(access.get(), /*use_file_locking=*/false,
                              /*ignore_when_disabled=*/true));
#endif
  const Hdf5Id creation(HR_HDF5(H5Pcreate(H5P_FILE_CREATE)));
  // Without times the same model gives the same file.
  HR_HDF5(H5Pset_obj_track_times(creation.get(), false));
  return Hdf5Id(HR_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get())));
}

Hdf5Id create_group(hid_t parent, const char* name) {
  const Hdf5Id creation(HR_HDF5(H5Pcreate(H5P_GROUP_CREATE)));
  HR_HDF5(H5Pset_obj_track_times(creation.get(), false));
  return Hdf5Id(HR_HDF5(H5Gcreate2(parent, name, H5P_DEFAULT, creation.get(), H5P_DEFAULT)));
}

/// For a dataset that is written past HDF5: in one piece, with its place fixed at once and no fill
/// values.
Hdf5Id create_dataset(hid_t parent, const std::string& name, const Hdf5Id& type,
                      const std::vector<hsize_t>& lengths) {
  const Hdf5Id links(HR_HDF5(H5Pcreate(H5P_LINK_CREATE)));
  HR_HDF5(H5Pset_create_intermediate_group(links.get(), 1));
  const Hdf5Id creation(HR_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  HR_HDF5(H5Pset_obj_track_times(creation.get(), false));
  HR_HDF5(H5Pset_layout(creation.get(), H5D_CONTIGUOUS));
  HR_HDF5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY));
  HR_HDF5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER));
  const Hdf5Id space(
      HR_HDF5(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr)));
  return Hdf5Id(HR_HDF5(H5Dcreate2(parent, name.c_str(), type.get(), space.get(), links.get(),
                                   creation.get(), H5P_DEFAULT)));
}

void write_text(hid_t object, const char* name, const std::string& text) {
  const Hdf5Id type(HR_HDF5(H5Tcopy(H5T_C_S1)));
  HR_HDF5(H5Tset_size(type.get(), text.size() + 1));
  HR_HDF5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  const Hdf5Id space(HR_HDF5(H5Screate(H5S_SCALAR)));
  const Hdf5Id attribute(
      HR_HDF5(H5Acreate2(object, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  HR_HDF5(H5Awrite(attribute.get(), type.get(), text.c_str()));
}

void write_number(hid_t object, const char* name, std::uint64_t number) {
  const Hdf5Id space(HR_HDF5(H5Screate(H5S_SCALAR)));
  const Hdf5Id attribute(
      HR_HDF5(H5Acreate2(object, name, H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  HR_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &number));
}

void change_number(hid_t object, const char* name, std::uint64_t number) {
  const Hdf5Id attribute(HR_HDF5(H5Aopen(object, name, H5P_DEFAULT)));
  HR_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &number));
}

void write_numbers(hid_t object, const char* name, const std::vector<std::int64_t>& numbers) {
  const hsize_t length = numbers.size();
  const Hdf5Id space(HR_HDF5(H5Screate_simple(1, &length, nullptr)));
  const Hdf5Id attribute(
      HR_HDF5(H5Acreate2(object, name, H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  HR_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_INT64, numbers.data()));
}

}  // namespace

Hdf5Writer::Hdf5Writer(const std::filesystem::path& path, Hdf5Plan plan)
    : plan_(std::move(plan)), partial_(path), file_(create_file(partial_.partial_path())) {
  declare_root();
  const Hdf5Id files = create_group(file_.get(), "files");
  for (const ModelFile& file : plan_.files) embed(files.get(), file);
  if (plan_.report) {
    const std::uint64_t bytes = plan_.report->size();
    embed_bytes(files.get(), {kQuantizationReport, {}, bytes, {{0, bytes}}},
                std::as_bytes(std::span(*plan_.report)));
  }
  const Hdf5Id tensors = create_group(file_.get(), "tensors");
  for (Hdf5Tensor& tensor : plan_.tensors) declare_tensor(tensors.get(), tensor);
  HR_HDF5(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL));
}

void Hdf5Writer::declare_root() {
  const hid_t root = file_.get();
  write_text(root, "format", std::string(kHdf5Format));
  write_number(root, "version", plan_.quantization ? kHdf5IntegerVersion : kHdf5Version);
  write_number(root, "complete", 0);
  write_text(root, "main_file", plan_.files.front().name);
  write_text(root, "source", plan_.provenance.source);
  write_text(root, "source_fingerprint", plan_.provenance.fingerprint);
  write_text(root, "program", plan_.provenance.program);
  if (!plan_.quantization) return;
  write_text(root, "quantization", plan_.quantization->type);
  write_text(root, "compute_dtype", plan_.quantization->compute_dtype);
}

void Hdf5Writer::declare_tensor(hid_t group, Hdf5Tensor& tensor) {
  tensor.bytes = tensor.implied_bytes();
  const bool quantized = tensor.quantization() != Quantization::kNone;
  std::vector<hsize_t> lengths(tensor.shape.begin(), tensor.shape.end());
  if (!tensor.slice_bounds.empty()) lengths = {lengths[0] * lengths[1]};
  if (quantized) lengths = {tensor.bytes};
  const Hdf5Id type = quantized ? Hdf5Id(HR_HDF5(H5Tcopy(H5T_STD_U8LE))) : hdf5_type(tensor.type);
  const Hdf5Id dataset = create_dataset(group, tensor.name, type, lengths);
  if (quantized) {
    write_text(dataset.get(), "quantization",
               std::string(quantization_name(tensor.quantization())));
  }
  if (!tensor.slice_bounds.empty()) {
    write_numbers(dataset.get(), "shape", tensor.shape);
    write_numbers(dataset.get(), "slice_bounds", tensor.slice_bounds);
  }
  write_number(dataset.get(), "checksum", 0);
  tensor.offset = H5Dget_offset(dataset.get());
}

// Files are small: written whole while they are declared.
void Hdf5Writer::embed(hid_t group, const ModelFile& file) {
  const InputFile source(file.path);
  std::vector<std::byte> bytes;
  for (const FileExtent& extent : file.extents) {
    const std::size_t start = bytes.size();
    bytes.resize(start + (extent.end - extent.begin));
    source.read(extent.begin, std::span(bytes).subspan(start));
  }
  embed_bytes(group, file, bytes);
}

void Hdf5Writer::embed_bytes(hid_t group, const ModelFile& file, std::span<const std::byte> bytes) {
  std::vector<std::int64_t> extents;
  for (const FileExtent& extent : file.extents) {
    extents.push_back(static_cast<std::int64_t>(extent.begin));
    extents.push_back(static_cast<std::int64_t>(extent.end));
  }
  const Hdf5Id type(HR_HDF5(H5Tcopy(H5T_STD_U8LE)));
  const Hdf5Id dataset = create_dataset(group, file.name, type, {bytes.size()});
  Checksum checksum;
  checksum.add(bytes);
  write_number(dataset.get(), "bytes", file.bytes);
  write_numbers(dataset.get(), "extents", extents);
  write_number(dataset.get(), "checksum", checksum.value());
  if (!bytes.empty()) partial_.write_at(H5Dget_offset(dataset.get()), bytes);
}

void Hdf5Writer::append(std::span<const std::byte> bytes) {
  const Hdf5Tensor& tensor = plan_.tensors.at(current_);
  if (bytes.size() > tensor.bytes - written_) {
    throw std::logic_error(fmt::format("{} bytes too many for {}", bytes.size(), tensor.name));
  }
  partial_.write_at(tensor.offset + written_, bytes);
  checksum_.add(bytes);
  written_ += bytes.size();
  if (written_ == tensor.bytes) end_tensor();
}

void Hdf5Writer::end_tensor() {
  plan_.tensors[current_].checksum = checksum_.value();
  checksum_ = Checksum();
  written_ = 0;
  ++current_;
}

void Hdf5Writer::finish() {
  if (current_ != plan_.tensors.size()) throw std::logic_error("a checkpoint lacks tensors");
  write_checksums();
  HR_HDF5(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL));
  change_number(file_.get(), "complete", 1);
  file_.close();
  partial_.commit();
}

void Hdf5Writer::write_checksums() {
  const Hdf5Id tensors(HR_HDF5(H5Gopen2(file_.get(), "tensors", H5P_DEFAULT)));
  for (const Hdf5Tensor& tensor : plan_.tensors) {
    const Hdf5Id dataset(HR_HDF5(H5Dopen2(tensors.get(), tensor.name.c_str(), H5P_DEFAULT)));
    change_number(dataset.get(), "checksum", tensor.checksum);
  }
}

}  // namespace headrace
