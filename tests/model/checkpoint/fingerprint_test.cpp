#include "model/checkpoint/fingerprint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

std::string fingerprint(const std::filesystem::path& path) {
  return Checkpoint::open(path)->fingerprint();
}

TEST(Fingerprint, EqualFilesAnywhereHaveEqualOnes) {
  const TempDirectory one;
  const TempDirectory two;
  write_hugging_face(one.path());
  write_hugging_face(two.path());
  write_file(two.path() / "README.md", "not part of the weights");
  EXPECT_EQ(fingerprint(one.path()), fingerprint(two.path()));
  EXPECT_EQ(fingerprint(one.path()).size(), 32U);
}

TEST(Fingerprint, AnyByteOfASmallModelCounts) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const std::string before = fingerprint(directory.path());
  const auto weights = directory.path() / "model.safetensors";
  std::string bytes = read_file(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(weights, bytes);
  EXPECT_NE(fingerprint(directory.path()), before);
  write_hugging_face(directory.path());
  EXPECT_EQ(fingerprint(directory.path()), before);
  ConfigFields fields = tiny_config({});
  fields["rms_norm_eps"] = "1e-06";
  write_file(directory.path() / "config.json", config_text(fields));
  EXPECT_NE(fingerprint(directory.path()), before);
}

// Of a large file 16 samples count: the first, the last and those between.
TEST(Fingerprint, SamplesReachFromTheHeaderToTheEnd) {
  const TempDirectory directory;
  const auto path = directory.path() / "weights";
  constexpr std::uint64_t kHeader = 1000;
  std::string bytes(3'000'000, 'x');
  const auto hash = [&] {
    write_file(path, bytes);
    std::vector<InputFile> files;
    files.emplace_back(path);
    return weights_fingerprint("{}", files, {kHeader});
  };
  const std::string before = hash();
  for (const std::size_t at : {std::size_t{0}, std::size_t{999}, std::size_t{1000},
                               std::size_t{66535}, bytes.size() - 65536, bytes.size() - 1}) {
    bytes[at] = 'y';
    EXPECT_NE(hash(), before) << at;
    bytes[at] = 'x';
  }
  EXPECT_EQ(hash(), before);
  bytes.push_back('x');
  EXPECT_NE(hash(), before) << "the size counts";
}

TEST(Fingerprint, MovingABorderBetweenFilesChangesIt) {
  const TempDirectory directory;
  const auto hash = [&](const std::string& first, const std::string& second) {
    write_file(directory.path() / "a", first);
    write_file(directory.path() / "b", second);
    std::vector<InputFile> files;
    files.emplace_back(directory.path() / "a");
    files.emplace_back(directory.path() / "b");
    return weights_fingerprint("{}", files, {1, 1});
  };
  EXPECT_NE(hash("xxx", "xx"), hash("xx", "xxx"));
}

}  // namespace
}  // namespace headrace
