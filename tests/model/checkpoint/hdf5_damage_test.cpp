#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/convert_checkpoint.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/hdf5_handle.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them
namespace fs = std::filesystem;

constexpr TinyLlama kTiny{.num_layers = 1, .intermediate_size = 64};

/// A sound checkpoint in a directory of its own, to be damaged.
class Hdf5Damage : public ::testing::Test {
 protected:
  Hdf5Damage() : path_(directory_.path() / "tiny.h5") {
    convert_to_hdf5(*Checkpoint::open(directory_.path()), path_,
                    {.dtype = {}, .source = "tiny", .program = "test"}, {});
    bytes_ = read_file(path_);
  }

  /// One line that names the file; what it says otherwise.
  std::string refusal() const {
    try {
      Checkpoint::open(path_);
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find(path_.string()), 0U) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text.substr(std::min(text.size(), path_.string().size() + 2));
    }
    return "accepted";
  }

  /// Changes the file through HDF5.
  void change(const std::function<void(hid_t)>& with) const {
    const Hdf5Id file(HR_HDF5(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)));
    with(file.get());
  }

  void change_number(const char* object, const char* name, std::uint64_t number) const {
    change([&](hid_t file) {
      const Hdf5Id attribute(
          HR_HDF5(H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT)));
      HR_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &number));
    });
  }

  /// A dataset in place of another, with these lengths and nothing written.
  void replace(const char* name, hid_t type, const std::vector<hsize_t>& lengths) const {
    change([&](hid_t file) {
      HR_HDF5(H5Ldelete(file, name, H5P_DEFAULT));
      const Hdf5Id space(
          HR_HDF5(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr)));
      const Hdf5Id dataset(HR_HDF5(
          H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
    });
  }

  ModelDirectory directory_{kTiny};
  fs::path path_;
  std::string bytes_;
};

TEST_F(Hdf5Damage, FileThatWasCutOffAnywhereIsRefused) {
  std::size_t step = bytes_.size() / 150;
  for (std::size_t size = 0; size < bytes_.size(); size += size < 64 ? 1 : step) {
    write_file(path_, bytes_.substr(0, size));
    EXPECT_NE(refusal(), "accepted") << size << " of " << bytes_.size();
  }
  write_file(path_, bytes_.substr(0, bytes_.size() - 1));
  EXPECT_EQ(refusal().find("is damaged or truncated (HDF5: "), 0U) << refusal();
}

// Which bytes are a tensor's or an embedded file's.
std::vector<bool> data_bytes(const fs::path& path, std::size_t size) {
  const Hdf5Contents contents = read_hdf5_contents(path);
  std::vector<bool> is_data(size);
  const auto mark = [&](std::uint64_t offset, std::uint64_t bytes) {
    std::fill_n(is_data.begin() + static_cast<std::ptrdiff_t>(offset), bytes, true);
  };
  for (const Hdf5Tensor& tensor : contents.tensors) mark(tensor.offset, tensor.bytes);
  for (const Hdf5File& file : contents.files) mark(file.offset, file.bytes);
  return is_data;
}

// Bytes that only fill space may change; whatever else does is noticed.
TEST_F(Hdf5Damage, ChangedMetadataIsRefusedOrWithoutEffect) {
  const std::string fingerprint = Checkpoint::open(path_)->fingerprint();
  const auto sound = read_hdf5_contents(path_);
  const std::vector<bool> is_data = data_bytes(path_, bytes_.size());
  int refused = 0;
  int tried = 0;
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    if (is_data[at] || bytes_[at] == 0 || (at > 512 && at % 5 != 0)) continue;
    std::string changed = bytes_;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    write_file(path_, changed);
    ++tried;
    try {
      const auto checkpoint = Checkpoint::open(path_);
      EXPECT_TRUE(checkpoint->damaged_tensors().empty()) << "byte " << at;
      EXPECT_EQ(checkpoint->tensors().size(), sound.tensors.size());
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(tried, 500);
  EXPECT_GT(refused, tried * 9 / 10) << "of " << tried;
}

TEST_F(Hdf5Damage, ChangedWeightsAreFoundByTheirChecksum) {
  const Hdf5Contents contents = read_hdf5_contents(path_);
  for (const Hdf5Tensor& tensor : contents.tensors) {
    std::string changed = bytes_;
    char& byte = changed[tensor.offset + tensor.bytes / 2];
    byte = static_cast<char>(byte ^ 4);
    write_file(path_, changed);
    EXPECT_EQ(Checkpoint::open(path_)->damaged_tensors(), std::vector<std::string>{tensor.name});
  }
}

TEST_F(Hdf5Damage, ChangedConfigurationIsRefused) {
  const Hdf5Contents contents = read_hdf5_contents(path_);
  for (const Hdf5File& file : contents.files) {
    std::string changed = bytes_;
    char& byte = changed[file.offset + file.bytes / 2];
    byte = static_cast<char>(byte ^ 1);
    write_file(path_, changed);
    try {
      const InputFile opened(path_ / file.name);
      FAIL() << "accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).find((path_ / file.name).string()), 0U);
      EXPECT_NE(std::string(error.what()).find("do not have the checksum"), std::string::npos);
    }
  }
}

TEST_F(Hdf5Damage, OtherVersionsAreRefusedByNumber) {
  change_number("/", "version", 3);
  EXPECT_EQ(refusal(), "has version 3 of the format; this program reads versions 1 and 2");
}

TEST_F(Hdf5Damage, UnfinishedFileIsRefused) {
  change_number("/", "complete", 0);
  EXPECT_EQ(refusal(), "was not finished by the program that wrote it: convert the model again");
  EXPECT_THROW(Tokenizer::load(path_), std::invalid_argument);
}

TEST_F(Hdf5Damage, UnrelatedHdf5FileIsRefused) {
  fs::remove(path_);
  {
    const Hdf5Id file(HR_HDF5(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)));
    const Hdf5Id group(
        HR_HDF5(H5Gcreate2(file.get(), "model_weights", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  }
  EXPECT_EQ(refusal().find("is an HDF5 file, but no Headrace checkpoint"), 0U) << refusal();
}

TEST_F(Hdf5Damage, AbsurdShapesAndTypesAreRefused) {
  const char* name = "tensors/model.norm.weight";
  const Hdf5Id bf16 = hdf5_type("BF16");
  struct Case {
    hid_t type;
    std::vector<hsize_t> lengths;
    const char* what;
  };
  const hsize_t huge = hsize_t{1} << 40;
  for (const Case& test :
       {Case{bf16.get(), {huge, huge}, "has the shape"}, Case{bf16.get(), {huge}, "of the file's"},
        Case{bf16.get(), {0}, "has the shape"}, Case{bf16.get(), {4, 2, 2}, "has 3 dimensions"},
        Case{H5T_STD_U16LE, {16}, "has a type that is none of"},
        Case{H5T_IEEE_F64LE, {16}, "has a type that is none of"},
        Case{bf16.get(), {16}, "of the file's"}}) {
    write_file(path_, bytes_);
    try {
      replace(name, test.type, test.lengths);
    } catch (const Hdf5Error&) {
      continue;  // HDF5 itself makes no such dataset
    }
    EXPECT_NE(refusal().find(test.what), std::string::npos) << refusal();
    EXPECT_NE(refusal().find("\"model.norm.weight\""), std::string::npos) << refusal();
  }
}

TEST_F(Hdf5Damage, MissingPartsAreNamed) {
  for (const auto& [object, what] : std::vector<std::pair<const char*, const char*>>{
           {"tensors/model.norm.weight", "tensor \"model.norm.weight\" is missing"},
           {"files/config.json", "the file \"config.json\""},
           {"tensors", "HDF5"},
           {"files", "HDF5"}}) {
    write_file(path_, bytes_);
    change([&](hid_t file) { HR_HDF5(H5Ldelete(file, object, H5P_DEFAULT)); });
    EXPECT_NE(refusal().find(what), std::string::npos) << refusal();
  }
}

TEST_F(Hdf5Damage, LinksThatLeadElsewhereAreNotFollowed) {
  change([](hid_t file) {
    HR_HDF5(
        H5Lcreate_external("/etc/passwd", "/", file, "files/outside", H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_NE(refusal().find("is a link to elsewhere"), std::string::npos) << refusal();
  write_file(path_, bytes_);
  change([](hid_t file) { HR_HDF5(H5Gmove(file, "files/config.json", "files/..")); });
  EXPECT_NE(refusal().find("has no plain name"), std::string::npos) << refusal();
}

TEST_F(Hdf5Damage, SlicesThatDoNotCutTheColumnsAreRefused) {
  const char* name = "tensors/model.layers.0.mlp.down_proj.weight";
  for (const std::vector<std::int64_t>& bounds :
       {std::vector<std::int64_t>{0, 8, 16, 24, 32, 40, 48, 56, 65},
        {1, 8, 16, 24, 32, 40, 48, 56, 64},
        {0, 8, 16, 24, 24, 40, 48, 56, 64},
        {0, 8, 16, 24, -32, 40, 48, 56, 64}}) {
    write_file(path_, bytes_);
    change([&](hid_t file) {
      const Hdf5Id dataset(HR_HDF5(H5Dopen2(file, name, H5P_DEFAULT)));
      const Hdf5Id attribute(HR_HDF5(H5Aopen(dataset.get(), "slice_bounds", H5P_DEFAULT)));
      HR_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_INT64, bounds.data()));
    });
    EXPECT_NE(refusal().find("slice_bounds that do not cut its columns"), std::string::npos)
        << refusal();
  }
}

}  // namespace
}  // namespace headrace
