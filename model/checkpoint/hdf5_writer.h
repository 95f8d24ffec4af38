// Writes a Headrace HDF5 checkpoint as a stream: everything is declared first, then the tensors'
// bytes come in order, then checksums and the mark that the file is complete. FORMAT.md describes
// the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/checksum.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/hdf5_handle.h"
#include "model/checkpoint/hdf5_layout.h"
#include "model/checkpoint/partial_file.h"

namespace headrace {

struct Hdf5Plan {
  std::vector<Hdf5Tensor> tensors;  // names, types, shapes, slices; the rest is filled in here
  std::vector<ModelFile> files;     // the main one first
  Hdf5Provenance provenance;
  std::optional<Hdf5Quantization> quantization;  // of a model with quantised matrices
  std::optional<std::string> report;             // on them: /files/quantization.txt
};

/// Owns the unfinished file, which vanishes with the object unless finish() was called.
class Hdf5Writer {
 public:
  /// Creates the file with everything in it but the tensors' bytes. Throws std::invalid_argument
  /// where it cannot be created.
  Hdf5Writer(const std::filesystem::path& path, Hdf5Plan plan);

  /// The next bytes of the tensors, which follow each other in the plan's order; one call's bytes
  /// belong to one tensor.
  void append(std::span<const std::byte> bytes);

  /// After the last byte: the file gets its name.
  void finish();

 private:
  void declare_root();
  void declare_tensor(hid_t group, Hdf5Tensor& tensor);
  void embed(hid_t group, const ModelFile& file);
  void embed_bytes(hid_t group, const ModelFile& file, std::span<const std::byte> bytes);
  void end_tensor();
  void write_checksums();

  Hdf5Plan plan_;
  PartialFile partial_;
  Hdf5Id file_;
  std::size_t current_ = 0;    // tensor that the next byte belongs to
  std::uint64_t written_ = 0;  // bytes of it
  Checksum checksum_;          // of these
};

}  // namespace headrace
