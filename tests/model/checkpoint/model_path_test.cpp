#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

// Sets the variables that say where the cache is, and puts them back.
class ModelPath : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.emplace_back(name,
                          value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
    setenv("HOME", directory_.path().c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_) {
      value ? setenv(name, value->c_str(), 1) : unsetenv(name);
    }
  }

  // A cached model org/tiny under the given cache directory; returns its snapshot.
  std::filesystem::path write_cached(const std::filesystem::path& cache) {
    const auto repository = cache / "models--org--tiny";
    auto snapshot = repository / "snapshots" / "abc123";
    std::filesystem::create_directories(snapshot);
    std::filesystem::create_directories(repository / "refs");
    write_file(repository / "refs" / "main", "abc123\n");
    write_hugging_face(snapshot);
    return snapshot;
  }

  static std::string refusal(const std::string& model) {
    try {
      return "resolved to " + resolve_model_path(model).string();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  }

  static constexpr const char* kNames[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                           "XDG_CACHE_HOME", "HOME"};
  TempDirectory directory_;
  std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

TEST_F(ModelPath, AnExistingPathIsItself) {
  EXPECT_EQ(resolve_model_path(directory_.path().string()), directory_.path());
}

TEST_F(ModelPath, NamesAreFoundInTheCacheThatTheEnvironmentNames) {
  const auto home = write_cached(directory_.path() / ".cache" / "huggingface" / "hub");
  const auto xdg = write_cached(directory_.path() / "xdg" / "huggingface" / "hub");
  const auto hf_home = write_cached(directory_.path() / "hf" / "hub");
  const auto hub = write_cached(directory_.path() / "cache");
  EXPECT_EQ(resolve_model_path("org/tiny"), home);
  setenv("XDG_CACHE_HOME", (directory_.path() / "xdg").c_str(), 1);
  EXPECT_EQ(resolve_model_path("org/tiny"), xdg);
  setenv("HF_HOME", (directory_.path() / "hf").c_str(), 1);
  EXPECT_EQ(resolve_model_path("org/tiny"), hf_home);
  setenv("HF_HUB_CACHE", (directory_.path() / "cache").c_str(), 1);
  EXPECT_EQ(resolve_model_path("org/tiny"), hub);
  EXPECT_EQ(Checkpoint::open("org/tiny")->config().num_layers, 2);
}

TEST_F(ModelPath, WhatIsNotThereIsRefusedWithThePlaceThatWasSearched) {
  setenv("HF_HUB_CACHE", directory_.path().c_str(), 1);
  EXPECT_NE(refusal("org/none")
                .find("has no " + (directory_.path() / "models--org--none").string() +
                      " (nothing is downloaded)"),
            std::string::npos);
  EXPECT_NE(refusal("./none").find("./none: there is no such file or directory"),
            std::string::npos);
  EXPECT_NE(refusal("a/b/c").find("a/b/c: there is no such file"), std::string::npos);
  EXPECT_NE(refusal("../no-such-model").find("../no-such-model: there is no such file"),
            std::string::npos);
  EXPECT_NE(refusal("").find("there is no such file"), std::string::npos);
}

TEST_F(ModelPath, AReferenceThatLeadsNowhereIsRefused) {
  const auto snapshot = write_cached(directory_.path());
  setenv("HF_HUB_CACHE", directory_.path().c_str(), 1);
  const auto reference = directory_.path() / "models--org--tiny" / "refs" / "main";
  write_file(reference, "../../..");
  EXPECT_NE(refusal("org/tiny")
                .find("refs/main: names the snapshot \"../../..\", which is not in the cache"),
            std::string::npos);
  write_file(reference, "");
  EXPECT_NE(refusal("org/tiny").find("names the snapshot \"\""), std::string::npos);
  std::filesystem::remove(reference);
  EXPECT_NE(refusal("org/tiny").find("refs/main: cannot be opened"), std::string::npos);
}

}  // namespace
}  // namespace headrace
