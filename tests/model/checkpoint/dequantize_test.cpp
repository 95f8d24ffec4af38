#include "model/checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/checkpoint/ggml_types.h"
#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/input_file.h"

namespace headrace {
namespace {

constexpr const char* kGolden = "tests/data/checkpoint/dequantize.gguf";

std::vector<std::byte> tensor_bytes(const InputFile& file, const GgufTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  file.read(tensor.offset, bytes);
  return bytes;
}

const GgufTensor& find(const GgufFile& file, const std::string& name) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

TEST(Dequantize, EveryTypeGivesTheBitsThatGgmlsFormulasGive) {
  const GgufFile gguf(kGolden);
  const InputFile file(kGolden);
  int types = 0;
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (tensor.name.ends_with(".expected")) continue;
    const StoredType* type = stored_type(static_cast<GgmlType>(tensor.type));
    ASSERT_NE(type, nullptr) << tensor.name;
    EXPECT_EQ(type->name, tensor.name);
    const std::vector<std::byte> blocks = tensor_bytes(file, tensor);
    const std::vector<std::byte> expected =
        tensor_bytes(file, find(gguf, tensor.name + ".expected"));
    std::vector<float> values(expected.size() / sizeof(float));
    type->to_float(blocks.data(), static_cast<std::int64_t>(blocks.size()) / type->block_bytes,
                   values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float want = 0;
      std::memcpy(&want, expected.data() + i * sizeof(float), sizeof(float));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(want))
          << tensor.name << " value " << i << ": " << values[i] << " for " << want;
    }
    ++types;
  }
  EXPECT_EQ(types, 15);
}

TEST(Dequantize, NamesListEveryTypeThatHasAConversion) {
  std::string names;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const StoredType* type = stored_type(static_cast<GgmlType>(number));
    if (type == nullptr) continue;
    EXPECT_NE(std::string(stored_type_names()).find(type->name), std::string::npos) << type->name;
    const GgmlTypeLayout* layout = ggml_type_layout(number);
    ASSERT_NE(layout, nullptr) << type->name;
    EXPECT_EQ(layout->name, type->name);
    EXPECT_EQ(layout->block_values, type->block_values) << type->name;
    EXPECT_EQ(layout->block_bytes, type->block_bytes) << type->name;
  }
}

// By the definition of binary16, with no bit tricks.
float half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return static_cast<float>(mantissa == 0 ? sign * INFINITY : NAN);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(std::copysign(magnitude, sign));
}

TEST(Dequantize, AllHalfPrecisionValuesAreExact) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(halves.size());
  stored_type(GgmlType::kF16)
      ->to_float(reinterpret_cast<const std::byte*>(halves.data()), 65536, values.data());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float want = half_value(halves[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(want)) << i;
    }
  }
}

TEST(Dequantize, BlocksNeedNoAlignment) {
  std::vector<std::byte> bytes(1 + 34);
  bytes[1 + 1] = std::byte{0x3c};  // scale 1.0
  for (std::size_t i = 0; i < 32; ++i) bytes[3 + i] = static_cast<std::byte>(i - 16);
  std::vector<float> values(32);
  stored_type(GgmlType::kQ8_0)->to_float(bytes.data() + 1, 1, values.data());
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], static_cast<float>(i) - 16.0F);
}

}  // namespace
}  // namespace headrace
