// Files that are damaged, hostile or something else altogether, each with a part of the one line
// that says so.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/gguf_file.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;

std::string refusal(const std::filesystem::path& path) {
  try {
    Checkpoint::open(path);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

struct Case {
  std::string bytes;
  std::string expected;
};

void expect_refusals(const std::filesystem::path& model, const std::filesystem::path& damaged,
                     const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    write_file(damaged, test.bytes);
    const std::string message = refusal(model);
    EXPECT_NE(message.find(test.expected), std::string::npos)
        << "wanted: " << test.expected << "\n   got: " << message;
    EXPECT_NE(message.find(damaged.filename().string()), std::string::npos) << message;
    EXPECT_EQ(message.find_first_of(std::string("\n\0\xff", 3)), std::string::npos) << message;
  }
}

const std::vector<Case>& files_of_another_kind() {
  static const std::vector<Case> kCases{
      {"", "an empty file"},
      {"<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"},
      {"  \n<html lang=en>", "an HTML page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML document"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n",
       "a git-lfs pointer"},
      {std::string("PK\x03\x04") + std::string(60, 'x'), "a zip archive or a PyTorch checkpoint"},
      {std::string("\x80\x02}q\0", 5), "a Python pickle"},
      {std::string("\x1f\x8b\x08") + std::string(60, 'x'), "a gzip archive"},
      {std::string("\x89HDF\r\n\x1a\n"), "an HDF5 file"},
      {std::string(4096, '\0'), "a file of zero bytes"},
  };
  return kCases;
}

// A safetensors file with this header and as many bytes of data.
std::string with_header(const std::string& json, std::size_t data_bytes = 0) {
  return bytes_of(std::uint64_t{json.size()}) + json + std::string(data_bytes, 'x');
}

TEST(DamagedFiles, SafetensorsThatAreSomethingElseAreNamed) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const auto weights = directory.path() / "model.safetensors";
  expect_refusals(directory.path(), weights, files_of_another_kind());
  expect_refusals(directory.path(), weights,
                  {{tiny_gguf().bytes(), "it looks like a GGUF file"},
                   {"{\"a\": 1}", "it looks like JSON text"},
                   {"short", "it has only 5 bytes"}});
}

TEST(DamagedFiles, SafetensorsHeadersAreChecked) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const std::string sound = read_file(directory.path() / "model.safetensors");
  const std::string header = safetensors_header(tiny_tensors({}));
  const std::string deep = "{\"a\":" + std::string(200000, '[');
  expect_refusals(
      directory.path(), directory.path() / "model.safetensors",
      {
          {sound.substr(0, sound.size() - 1), "it is truncated or damaged"},
          {sound.substr(0, sound.size() / 2), "it is truncated or damaged"},
          {sound.substr(0, header.size()), "claims a header of"},
          {sound.substr(0, 12), "bytes but has only 12 bytes"},
          {sound + "x", "1 bytes after the last tensor belong to no tensor"},
          {bytes_of(kHuge) + "{}", "safetensors allows 100000000"},
          {bytes_of(~std::uint64_t{0}) + "{}", "safetensors allows 100000000"},
          {bytes_of(std::uint64_t{99'000'000}) + "{}",
           "claims a header of 99000000 bytes but has only 10"},
          {bytes_of(std::uint64_t{0}), "a file of zero bytes"},
          {bytes_of(std::uint64_t{0}) + "x", "the header does not start with '{'"},
          {with_header("[1]"), "the header does not start with '{'"},
          {with_header("{"), "the header is not valid JSON at its byte"},
          {with_header(deep), "has a list where"},
          {with_header("{\"a\":" + std::string(100000, '{')), "the header is not valid JSON"},
          {with_header("{\"a\":{\"b\":{\"c\":{}}}}"),
           "the header's entry \"a\" has an object where"},
          {with_header(std::string("{\"a\":{}}\0", 9)),
           "the header is not valid JSON at its byte 9"},
          {with_header("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                       4),
           "tensor name \"a\\x00b\" is not plain text"},
          {with_header("{\"\xff\":{}}"), "the header is not valid JSON at its byte"},
          {with_header("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4),
           "tensor name \"\" is not plain text"},
          {with_header("{\"a\":1}"), "the header's entry \"a\" has a number where"},
          {with_header("{\"a\":null}"), "has null where"},
          {with_header("{\"a\":true}"), "has a boolean where"},
          {with_header("{\"a\":\"x\"}"), "has a text where"},
          {with_header("{\"a\":{}}"), "entry \"a\" lacks dtype, shape or two data_offsets"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4),
           "lacks dtype, shape or two data_offsets"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4),
           "lacks dtype, shape or two data_offsets"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}",
                       4),
           "has a number where"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), "has a text where"},
          {with_header("{\"a\":{\"shape\":[1],\"shape\":[1]}}"), "has a list where"},
          {with_header("{\"a\":{\"shape\":[[1]]}}"), "has a list where"},
          {with_header("{\"a\":{\"shape\":[-1]}}"), "has the number -1 where"},
          {with_header("{\"a\":{\"shape\":[1.5]}}"), "has a fractional number where"},
          {with_header("{\"a\":{\"shape\":[18446744073709551615]}}"),
           "has the number 18446744073709551615 where"},
          {with_header("{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1]}}"),
           "has a list of more than 8 numbers where"},
          {with_header("{\"a\":{\"shape\":[\"1\"]}}"), "has a text where"},
          {with_header("{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4),
           "tensor \"a\" has the unknown dtype \"F31\""},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4),
           "tensor \"a\" has 4 bytes, but F32 of shape [2] takes 8"},
          {with_header("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2),
           "tensor \"a\" ends inside a byte"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_"
                       "offsets\":[0,4]}}",
                       4),
           "the size of tensor \"a\" with shape [4611686018427387904, 4] overflows"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4),
           "data_offsets [4, 0], which run backwards"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 4),
           "tensor \"a\" ends at byte"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8),
           "4 bytes before tensor \"a\" belong to no tensor"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":["
                       "9223372036854775803,9223372036854775807]}}",
                       4),
           "tensor \"a\" ends at byte"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{"
                       "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                       8),
           "tensors \"a\" and \"b\" overlap"},
          {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{"
                       "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                       4),
           "tensor \"a\" appears twice in the header"},
          {with_header("{}"), "tensor \"model.embed_tokens.weight\" is missing (and 19 more)"},
          {safetensors_bytes(tiny_tensors({.num_layers = 1})),
           "tensor \"model.layers.1.input_layernorm.weight\" is missing (and 8 more)"},
          {safetensors_bytes(tiny_tensors({.num_layers = 3})),
           "has no place in this LlamaForCausalLM with 2 layers"},
          {safetensors_bytes(tiny_tensors({.intermediate_size = 48})),
           "tensor \"model.layers.0.mlp.gate_proj.weight\" has the shape [48, 16], but config.json "
           "implies [32, 16]"},
          {safetensors_bytes(tiny_tensors({.attention_bias = true})),
           "tensor \"model.layers.0.self_attn.q_proj.bias\" (and 7 more) has no place"},
      });
  // The same bytes as the reader expects them are accepted, so the table above proves something.
  write_file(directory.path() / "model.safetensors", sound);
  EXPECT_EQ(refusal(directory.path()), "accepted");
}

TEST(DamagedFiles, TypesThatNoDecoderReadsAreNamed) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  std::vector<FileTensor> tensors = tiny_tensors({});
  tensors[1].type = "F8_E4M3";
  tensors[1].data.resize(16);
  write_file(directory.path() / "model.safetensors", safetensors_bytes(tensors));
  EXPECT_NE(refusal(directory.path())
                .find("tensor \"model.layers.0.input_layernorm.weight\" has the type \"F8_E4M3\"; "
                      "supported: "),
            std::string::npos);
}

TEST(DamagedFiles, IndexesAreChecked) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  std::filesystem::rename(directory.path() / "model.safetensors",
                          directory.path() / "part.safetensors");
  const auto map = [](const std::string& entries) { return "{\"weight_map\":{" + entries + "}}"; };
  expect_refusals(directory.path(), directory.path() / "model.safetensors.index.json",
                  {
                      {"", "is not JSON; it looks like an empty file"},
                      {"<html>", "is not JSON; it looks like an HTML page"},
                      {"version https://git-lfs.github.com/spec/v1", "a git-lfs pointer"},
                      {"{}", "weight_map is absent; an object is needed"},
                      {"{\"weight_map\": 3}", "weight_map is 3; an object is accepted"},
                      {map(""), "weight_map is empty"},
                      {map("\"a\": 1"), "weight_map.a is 1; a text is accepted"},
                      {map("\"a\": null"), "weight_map.a is absent; the name of a file is needed"},
                      {map("\"a\": \"../x.safetensors\""),
                       "weight_map names the file \"../x.safetensors\"; a .safetensors file in the "
                       "same directory"},
                      {map("\"a\": \"/etc/passwd\""), "weight_map names the file \"/etc/passwd\""},
                      {map("\"a\": \"x.bin\""), "weight_map names the file \"x.bin\""},
                      {map("\"a\": \"x\\u0000.safetensors\""),
                       "weight_map names the file \"x\\x00.safetensors\""},
                  });
  write_file(directory.path() / "model.safetensors.index.json", map("\"a\": \"part.safetensors\""));
  EXPECT_NE(
      refusal(directory.path())
          .find(
              "part.safetensors: lacks the tensor \"a\" that model.safetensors.index.json expects"),
      std::string::npos);
}

TEST(DamagedFiles, ConfigsThatAreSomethingElseAreNamed) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const auto config = directory.path() / "config.json";
  expect_refusals(
      directory.path(), config,
      {{"", "it looks like an empty file"},
       {"<!doctype html>", "it looks like an HTML page"},
       {"version https://git-lfs.github.com/spec/v1\n", "it looks like a git-lfs pointer"},
       {"not json", "is not valid JSON at byte"},
       {"[]", "is not a JSON object"},
       {std::string(5 << 20, ' ') + "{}", "at most 4194304 are read from such a file"}});
}

TEST(DamagedFiles, DirectoriesWithoutAModelSayWhatTheyLack) {
  const TempDirectory directory;
  EXPECT_NE(refusal(directory.path()).find("has no config.json, which says what the model is"),
            std::string::npos);
  write_file(directory.path() / "tokenizer.json", "{}");
  EXPECT_NE(refusal(directory.path()).find("has no config.json"), std::string::npos);
  write_file(directory.path() / "model.gguf", "x");
  EXPECT_NE(refusal(directory.path()).find("it has \"model.gguf\": name the .gguf file itself"),
            std::string::npos);
  std::filesystem::remove(directory.path() / "model.gguf");
  write_file(directory.path() / "config.json", config_text(tiny_config({})));
  EXPECT_NE(refusal(directory.path())
                .find("has neither model.safetensors nor model.safetensors.index.json"),
            std::string::npos);
  write_file(directory.path() / "pytorch_model.bin", "x");
  EXPECT_NE(
      refusal(directory.path()).find("PyTorch pickles are not read: convert them to safetensors"),
      std::string::npos);
  std::filesystem::create_directory(directory.path() / "model.safetensors");
  EXPECT_NE(refusal(directory.path()).find("model.safetensors: not a regular file"),
            std::string::npos);
}

TEST(DamagedFiles, FilesThatAreNoModelAreNamed) {
  const TempDirectory directory;
  const auto file = directory.path() / "some.file";
  write_file(file, "hello");
  EXPECT_NE(refusal(file).find("some.file: is no model; a Hugging Face directory"),
            std::string::npos);
  write_file(file, safetensors_bytes(tiny_tensors({})));
  EXPECT_NE(
      refusal(file).find("is no model; it looks like a safetensors file; a Hugging Face directory"),
      std::string::npos);
}

TEST(DamagedFiles, GgufThatIsSomethingElseIsNamed) {
  const TempDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  expect_refusals(path, path, files_of_another_kind());
  expect_refusals(path, path,
                  {{safetensors_bytes(tiny_tensors({})), "it looks like a safetensors file"},
                   {"hello", "is not a GGUF file"}});
}

// "GGUF", version, tensors, keys and what follows.
std::string gguf(std::uint64_t tensors, std::uint64_t keys, const std::string& rest,
                 std::uint32_t version = 3) {
  return "GGUF" + bytes_of(version) + bytes_of(tensors) + bytes_of(keys) + rest;
}

std::string text(const std::string& value) {
  return bytes_of(std::uint64_t{value.size()}) + value;
}

// A file of one tensor "a" with these dimensions, innermost first.
std::string one_tensor(const std::vector<std::uint64_t>& lengths, std::uint32_t type,
                       std::uint64_t offset, std::size_t data_bytes) {
  std::string bytes = gguf(1, 0, text("a") + bytes_of(static_cast<std::uint32_t>(lengths.size())));
  for (const std::uint64_t length : lengths) bytes += bytes_of(length);
  bytes += bytes_of(type) + bytes_of(offset);
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + std::string(data_bytes, 'x');
}

TEST(DamagedFiles, GgufHeadersAreChecked) {
  const TempDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  const std::string sound = tiny_gguf().bytes();
  const std::string u32 = bytes_of(std::uint32_t{4}) + bytes_of(std::uint32_t{1});
  const auto array = [](std::uint32_t kind, std::uint64_t count, const std::string& rest) {
    return gguf(0, 1,
                text("k") + bytes_of(std::uint32_t{9}) + bytes_of(kind) + bytes_of(count) + rest);
  };
  expect_refusals(
      path, path,
      {
          {sound.substr(0, sound.size() - 40), "reaches beyond the end of the file"},
          {sound.substr(0, 700), "claims 20 tensors, more than its"},
          {sound.substr(0, 500), "it is truncated or damaged"},
          {sound.substr(0, 20), "the header needs 8 bytes at byte 16, but the file has only 20"},
          {sound.substr(0, 6), "the header needs 4 bytes at byte 4"},
          {gguf(0, 0, "", 1), "has GGUF version 1; versions 2 and 3 are read"},
          {gguf(0, 0, "", 4), "has GGUF version 4; versions 2 and 3 are read"},
          {gguf(0, 0, "", 0x03000000), "is a big-endian GGUF file"},
          {gguf(0, kHuge, ""), "claims 4611686018427387904 metadata keys"},
          {gguf(kHuge, 0, ""), "claims 4611686018427387904 tensors"},
          {gguf(0, 3, text("k") + u32 + std::string(10, 'x')), "claims 3 metadata keys"},
          {gguf(0, 1, bytes_of(kHuge) + std::string(64, 'x')),
           "a metadata key has a length of 4611686018427387904 bytes; at most 65535"},
          {gguf(0, 1, bytes_of(std::uint64_t{60000}) + std::string(64, 'x')),
           "a metadata key needs 60000 bytes at byte 32, but the file has only 96"},
          {gguf(0, 1, text("k") + bytes_of(std::uint32_t{8}) + bytes_of(kHuge)),
           "key \"k\" needs 4611686018427387904 bytes"},
          {gguf(0, 1, text("k") + bytes_of(std::uint32_t{8}) + bytes_of(~std::uint64_t{0})),
           "key \"k\" needs 18446744073709551615 bytes"},
          {gguf(0, 1, text("k") + bytes_of(std::uint32_t{13}) + std::string(64, 'x')),
           "key \"k\" has the kind 13; 0 to 12 are possible"},
          {gguf(0, 1, text("k") + bytes_of(std::uint32_t{7}) + "\2"), "a boolean has the value 2"},
          {gguf(0, 2, text("k") + u32 + text("k") + u32), "metadata key \"k\" appears twice"},
          {gguf(0, 1, text("\xff\xfe") + u32), "metadata key \"\\xff\\xfe\" is not plain text"},
          {gguf(0, 1, text(std::string("a\0b", 3)) + u32),
           "metadata key \"a\\x00b\" is not plain text"},
          {array(4, kHuge, ""), "key \"k\" claims 4611686018427387904 elements"},
          {array(0, 1000, std::string(999, 'x')), "key \"k\" claims 1000 elements"},
          {array(8, 100, std::string(799, '\0')), "key \"k\" claims 100 elements"},
          {array(8, 2, text("x") + bytes_of(kHuge)), "key \"k\" needs 4611686018427387904 bytes"},
          {array(9, 1, std::string(64, '\0')), "key \"k\" is an array of kind 9"},
          {array(77, 1, std::string(64, '\0')), "key \"k\" is an array of kind 77"},
          {array(10, 1, bytes_of(~std::uint64_t{0})),
           "an array holds the integer 18446744073709551615, which is too large"},
          {gguf(1, 0, bytes_of(kHuge) + std::string(64, 'x')),
           "the tensor table has a length of 4611686018427387904 bytes"},
          {gguf(1, 0, text("\xc3") + std::string(64, 'x')),
           "tensor name \"\\xc3\" is not plain text"},
          {one_tensor({}, 0, 0, 64), "tensor \"a\" has 0 dimensions; 1 to 4"},
          {one_tensor({1, 1, 1, 1, 1}, 0, 0, 64), "tensor \"a\" has 5 dimensions"},
          {one_tensor({0}, 0, 0, 64), "tensor \"a\" has a dimension of 0"},
          {one_tensor({~std::uint64_t{0}}, 0, 0, 64),
           "tensor \"a\" has a dimension of 18446744073709551615"},
          {one_tensor({16}, 5, 0, 64), "tensor \"a\" has the unknown type 5"},
          {one_tensor({16}, 4000000000U, 0, 64), "tensor \"a\" has the unknown type 4000000000"},
          {one_tensor({48}, 8, 0, 64),
           "tensor \"a\" has rows of 48 values, which is no multiple of Q8_0's block of 32"},
          {one_tensor({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0, 64),
           "the size of tensor \"a\" overflows"},
          {one_tensor({std::uint64_t{1} << 62}, 0, 0, 64), "the size of tensor \"a\" overflows"},
          {one_tensor({17}, 0, 0, 64),
           "tensor \"a\" (68 bytes at offset 0 of the data) reaches beyond the end"},
          {one_tensor({16}, 0, 32, 64),
           "tensor \"a\" (64 bytes at offset 32 of the data) reaches beyond the end"},
          {one_tensor({16}, 0, 4, 128),
           "starts at offset 4, which is no multiple of the alignment 32"},
          {one_tensor({16}, 0, ~std::uint64_t{0} - 31, 64), "reaches beyond the end"},
      });
  write_file(path, sound);
  EXPECT_EQ(refusal(path), "accepted");
}

TEST(DamagedFiles, GgufTensorsMayNotOverlapOrRepeat) {
  const TempDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  const auto tensor = [](const std::string& name, std::uint64_t offset) {
    return text(name) + bytes_of(std::uint32_t{1}) + bytes_of(std::uint64_t{16}) +
           bytes_of(std::uint32_t{0}) + bytes_of(offset);
  };
  std::vector<std::string> alignments;
  for (const std::uint32_t alignment : {0U, 3U, 1U << 25}) {
    alignments.push_back(gguf(1, 1,
                              text("general.alignment") + bytes_of(std::uint32_t{4}) +
                                  bytes_of(alignment) + tensor("a", 0)) +
                         std::string(128, 'x'));
  }
  expect_refusals(path, path,
                  {
                      {gguf(2, 0, tensor("a", 0) + tensor("b", 32)) + std::string(256, 'x'),
                       "tensors \"a\" and \"b\" overlap"},
                      {gguf(2, 0, tensor("a", 0) + tensor("a", 64)) + std::string(256, 'x'),
                       "tensor \"a\" appears twice"},
                      {alignments[0], "general.alignment is not a power of two"},
                      {alignments[1], "general.alignment is not a power of two"},
                      {alignments[2], "general.alignment is not a power of two"},
                  });
}

TEST(DamagedFiles, SplitNumbersAreChecked) {
  const TempDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  GgufWriter writer = tiny_gguf();
  writer.set_u32("split.count", 4000000000U);
  write_file(path, writer.bytes());
  EXPECT_NE(refusal(path).find("split.count is 4000000000; 1 to 99999"), std::string::npos);
  writer.set_string("split.count", "two");
  write_file(path, writer.bytes());
  EXPECT_NE(refusal(path).find("key \"split.count\" must be an integer"), std::string::npos);
  writer.set_u32("split.count", 1).set_i32("split.tensors.count", 5);
  write_file(path, writer.bytes());
  EXPECT_NE(refusal(path).find("split.tensors.count is 5, but the 1 files hold 20 tensors"),
            std::string::npos);
}

TEST(DamagedFiles, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(in_quotes("plain"), "\"plain\"");
  EXPECT_EQ(in_quotes("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(in_quotes("a\nb\x7f\xff"), "\"a\\x0ab\\x7f\\xff\"");
  const std::string name = in_quotes(std::string(100000, 'x'));
  EXPECT_LT(name.size(), 130U);
  EXPECT_TRUE(name.ends_with("...\""));
}

}  // namespace
}  // namespace headrace
