#include "model/checkpoint/gguf_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

class GgufFileTest : public testing::Test {
 protected:
  GgufFile open(const GgufWriter& writer) {
    path_ = directory_.path() / "file.gguf";
    write_file(path_, writer.bytes());
    return GgufFile(path_);
  }

  TempDirectory directory_;
  std::filesystem::path path_;
};

TEST_F(GgufFileTest, EveryKindOfValueIsRead) {
  GgufWriter writer;
  writer.set("u8", 0, "\xff").set("i8", 1, "\xff").set_u16("u16", 65535).set("i16", 3, "\xfe\xff");
  writer.set_u32("u32", 4000000000U).set_i32("i32", -5).set_f32("f32", 0.5F).set_bool("yes", true);
  writer.set_string("text", "hello")
      .set_u64("u64", 1ULL << 63)
      .set("i64", 11, bytes_of(std::int64_t{-1} << 62));
  writer.set_f64("f64", 1e300).set_strings("texts", {"a", "", "c"}).set_i32s("numbers", {1, -2});
  writer.set_f32s("floats", {0.25F, -1.0F}).set_array("none", 8, 0, "");
  writer.set_array("flags", 7, 2, std::string("\1\0", 2));
  const GgufFile file = open(writer);
  EXPECT_EQ(file.integer("u8"), 255);
  EXPECT_EQ(file.integer("i8"), -1);
  EXPECT_EQ(file.integer("u16"), 65535);
  EXPECT_EQ(file.integer("i16"), -2);
  EXPECT_EQ(file.integer("u32"), 4000000000);
  EXPECT_EQ(file.integer("i32"), -5);
  EXPECT_EQ(file.integer("i64"), std::int64_t{-1} << 62);
  EXPECT_THROW(file.integer("u64"), std::invalid_argument);
  EXPECT_EQ(std::get<std::uint64_t>(file.find("u64")->value), 1ULL << 63);
  EXPECT_EQ(file.number("f32"), 0.5);
  EXPECT_EQ(file.number("f64"), 1e300);
  EXPECT_EQ(file.number("i32"), -5.0);
  EXPECT_EQ(file.boolean("yes"), true);
  EXPECT_EQ(*file.string("text"), "hello");
  EXPECT_EQ(*file.strings("texts"), (std::vector<std::string>{"a", "", "c"}));
  EXPECT_TRUE(file.strings("none")->empty());
  EXPECT_EQ(*file.integers("numbers"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(*file.numbers("floats"), (std::vector<double>{0.25, -1.0}));
  EXPECT_EQ(std::get<std::vector<bool>>(file.find("flags")->value),
            (std::vector<bool>{true, false}));
}

TEST_F(GgufFileTest, AbsentKeysAreNothingAndOtherKindsAreErrors) {
  GgufWriter writer;
  writer.set_string("text", "x").set_f32("half", 0.5F);
  const GgufFile file = open(writer);
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_EQ(file.integer("nothing"), std::nullopt);
  EXPECT_EQ(file.number("nothing"), std::nullopt);
  EXPECT_EQ(file.boolean("nothing"), std::nullopt);
  EXPECT_EQ(file.string("nothing"), nullptr);
  EXPECT_EQ(file.strings("nothing"), nullptr);
  EXPECT_THROW(file.integer("half"), std::invalid_argument);
  EXPECT_THROW(file.number("text"), std::invalid_argument);
  EXPECT_THROW(file.boolean("text"), std::invalid_argument);
  EXPECT_THROW(file.string("half"), std::invalid_argument);
  EXPECT_THROW(file.strings("text"), std::invalid_argument);
  EXPECT_THROW(file.integers("text"), std::invalid_argument);
  EXPECT_THROW(file.numbers("text"), std::invalid_argument);
}

TEST_F(GgufFileTest, TensorsLieWhereAlignmentPutsThem) {
  for (const std::uint32_t alignment : {8U, 32U, 4096U}) {
    GgufWriter writer;
    writer.set_alignment(alignment);
    writer.add(make_tensor("a", "F32", {3}, {1, 2, 3}))
        .add(make_tensor("b", "F16", {2, 2}, {1, 2, 3, 4}));
    const GgufFile file = open(writer);
    const std::string bytes = read_file(path_);
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_EQ(bytes.substr(file.tensors()[0].offset, file.tensors()[0].bytes), to_f32({1, 2, 3}));
    EXPECT_EQ(bytes.substr(file.tensors()[1].offset, file.tensors()[1].bytes),
              to_f16({1, 2, 3, 4}));
    EXPECT_EQ(file.tensors()[1].offset % alignment, 0U);
    EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{2, 2}));
  }
}

TEST_F(GgufFileTest, AFileOfMetadataAloneIsSound) {
  GgufWriter writer;
  writer.set_strings("tokenizer.ggml.tokens", {"<s>", "a"});
  const GgufFile file = open(writer);
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens")->size(), 2U);
  EXPECT_EQ(file.header_bytes().front(), std::filesystem::file_size(path_));
}

TEST_F(GgufFileTest, TypesThatCannotBeDequantisedDoNotHideTheMetadata) {
  GgufWriter writer;
  writer.set_u32("x", 1).add({"a", "IQ1_S", {256}, std::string(50, 'q')});
  EXPECT_EQ(open(writer).integer("x"), 1);
}

TEST_F(GgufFileTest, LongTextsCrossTheReadersPieces) {
  const std::string text(700000, 'x');
  std::vector<std::string> tokens(40000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  GgufWriter writer;
  writer.set_string("long", text).set_strings("tokens", tokens).set_u32("last", 7);
  const GgufFile file = open(writer);
  EXPECT_EQ(*file.string("long"), text);
  EXPECT_EQ(*file.strings("tokens"), tokens);
  EXPECT_EQ(file.integer("last"), 7);
}

}  // namespace
}  // namespace headrace
