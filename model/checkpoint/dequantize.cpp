#include "model/checkpoint/dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace headrace {
namespace {

using Byte = std::uint8_t;

// Blocks of the K types hold 256 values in two halves of 128.
constexpr int kSuperBlock = 256;
constexpr int kHalf = 128;

// All half-precision values exactly, infinities and NaNs included, without a branch: subnormals are
// made by subtracting the implied one from a number whose mantissa they are.
inline float half_to_float(std::uint32_t half) {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const std::uint32_t normal = magnitude + (112U << 23);
  const float subnormal = std::bit_cast<float>(magnitude + (113U << 23)) - 0x1p-14F;
  const std::uint32_t special = magnitude | 0x7f800000U;
  std::uint32_t bits = magnitude < (1U << 23) ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  bits = magnitude >= (31U << 23) ? special : bits;
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

inline std::uint32_t load_u16(const Byte* at) {
  return static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8;
}

inline float load_half(const Byte* at) {
  return half_to_float(load_u16(at));
}

// to_float of a block type: Convert turns one block into block_values floats.
template <int kValues, int kBytes, void (*Convert)(const Byte*, float*)>
void convert_blocks(const std::byte* blocks, std::int64_t num_blocks, float* out) {
  const auto* block = reinterpret_cast<const Byte*>(blocks);
  for (std::int64_t i = 0; i < num_blocks; ++i, block += kBytes, out += kValues) {
    Convert(block, out);
  }
}

void f32_to_float(const std::byte* values, std::int64_t count, float* out) {
  std::memcpy(out, values, static_cast<std::size_t>(count) * sizeof(float));
}

void f16_to_float(const std::byte* values, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, values + 2 * i, sizeof(half));
    out[i] = half_to_float(half);
  }
}

void bf16_to_float(const std::byte* values, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t high = 0;
    std::memcpy(&high, values + 2 * i, sizeof(high));
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(high) << 16);
  }
}

// half scale | 16 bytes: low nibbles are values 0 to 15, high nibbles 16 to 31
void q4_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  const Byte* quants = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((quants[i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((quants[i] >> 4) - 8);
  }
}

// half scale | half minimum | 16 bytes of nibbles
void q4_1(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const Byte* quants = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(quants[i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(quants[i] >> 4) + minimum;
  }
}

// Fifth bits of 32 values, one bit each, as 0 or 16.
inline std::array<Byte, 32> fifth_bits(const Byte* packed) {
  std::array<Byte, 32> bits{};
  for (int i = 0; i < 32; ++i) {
    bits[static_cast<std::size_t>(i)] = static_cast<Byte>((packed[i / 8] >> (i % 8) & 1) << 4);
  }
  return bits;
}

// half scale | 32 fifth bits | 16 bytes of nibbles
void q5_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  const std::array<Byte, 32> high = fifth_bits(block + 2);
  const Byte* quants = block + 6;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(((quants[i] & 15) | high[i]) - 16);
    out[i + 16] = scale * static_cast<float>(((quants[i] >> 4) | high[i + 16]) - 16);
  }
}

// half scale | half minimum | 32 fifth bits | 16 bytes of nibbles
void q5_1(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const std::array<Byte, 32> high = fifth_bits(block + 4);
  const Byte* quants = block + 8;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((quants[i] & 15) | high[i]) + minimum;
    out[i + 16] = scale * static_cast<float>((quants[i] >> 4) | high[i + 16]) + minimum;
  }
}

// half scale | 32 signed bytes
void q8_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  for (int i = 0; i < 32; ++i)
    out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * scale;
}

// 16 bytes: scale and minimum nibbles of 16 groups of 16 | 64 bytes of 2-bit values | half scale of
// the scales | half scale of the minima. Bits 2s of byte 32h + l are value 128h + 32s + l.
void q2_k(const Byte* block, float* out) {
  const Byte* scales = block;
  const Byte* quants = block + 16;
  const float scale = load_half(block + 80);
  const float min_scale = load_half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(scales[group] & 15);
    const float group_min = min_scale * static_cast<float>(scales[group] >> 4);
    const Byte* from = quants + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      out[group * 16 + i] = group_scale * static_cast<float>(from[i] >> shift & 3) - group_min;
    }
  }
}

// 32 bytes of third bits (bit 4h + s of byte l is that of value 128h + 32s + l; a clear bit
// subtracts 4) | 64 bytes of 2-bit values as in q2_k | 12 bytes: 6-bit scales of 16 groups | half
// scale.
void q3_k(const Byte* block, float* out) {
  const Byte* high = block;
  const Byte* quants = block + 32;
  const Byte* packed = block + 96;
  const float scale = load_half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low4 = packed[group % 8] >> group / 8 * 4 & 15;
    const int high2 = packed[8 + group % 4] >> group / 4 * 2 & 3;
    const float group_scale = scale * static_cast<float>((low4 | high2 << 4) - 32);
    const int lane = group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    const int high_bit = group / 2;
    for (int i = 0; i < 16; ++i) {
      const int low = quants[group / 8 * 32 + lane + i] >> shift & 3;
      const int offset = 4 - (high[lane + i] >> high_bit & 1) * 4;
      out[group * 16 + i] = group_scale * static_cast<float>(low - offset);
    }
  }
}

struct ScaleAndMin {
  float scale;
  float minimum;
};

// The 6-bit scale and minimum of group 0 to 7 from the 12 bytes that q4_k and q5_k pack them in:
// bytes 0 to 3 and 4 to 7 hold those of groups 0 to 3, and in their upper two bits the upper bits
// of groups 4 to 7, whose lower nibbles are in bytes 8 to 11.
inline ScaleAndMin group_scale_and_min(const Byte* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  }
  const int scale = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
  const int minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
  return {static_cast<float>(scale), static_cast<float>(minimum)};
}

// half scale | half scale of minima | 12 bytes of scales | 128 bytes: nibble n of byte 32p + l is
// value 64p + 32n + l
void q4_k(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float min_scale = load_half(block + 2);
  const Byte* quants = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = group_scale_and_min(block + 4, group);
    const float group_scale = scale * packed.scale;
    const float group_min = min_scale * packed.minimum;
    const Byte* from = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = group_scale * static_cast<float>(from[i] >> shift & 15) - group_min;
    }
  }
}

// As q4_k, with 32 bytes of fifth bits before the nibbles: bit g of byte l is that of value 32g +
// l.
void q5_k(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float min_scale = load_half(block + 2);
  const Byte* high = block + 16;
  const Byte* quants = block + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = group_scale_and_min(block + 4, group);
    const float group_scale = scale * packed.scale;
    const float group_min = min_scale * packed.minimum;
    const Byte* from = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int quant = (from[i] >> shift & 15) | (high[i] >> group & 1) << 4;
      out[group * 32 + i] = group_scale * static_cast<float>(quant) - group_min;
    }
  }
}

// 128 bytes of low nibbles | 64 bytes of upper 2 bits | 16 signed scales of groups of 16 | half
// scale. Value 128h + 32k + l: nibble k / 2 of byte 64h + 32(k % 2) + l, bits 2k of byte 32h + l.
void q6_k(const Byte* block, float* out) {
  const float scale = load_half(block + 208);
  for (int part = 0; part < 8; ++part) {
    const int half = part / 4;
    const int quarter = part % 4;
    const Byte* low = block + half * 64 + quarter % 2 * 32;
    const Byte* high = block + 128 + half * 32;
    const int low_shift = quarter / 2 * 4;
    const int high_shift = quarter * 2;
    for (int lane = 0; lane < 32; lane += 16) {
      const int group = (half * kHalf + quarter * 32 + lane) / 16;
      const auto group_quant = static_cast<std::int8_t>(block[192 + group]);
      const float group_scale = scale * static_cast<float>(group_quant);
      for (int i = 0; i < 16; ++i) {
        const int quant = (low[lane + i] >> low_shift & 15) | (high[lane + i] >> high_shift & 3)
                                                                  << 4;
        out[group * 16 + i] = group_scale * static_cast<float>(quant - 32);
      }
    }
  }
}

// The 16 values of ggml's non-linear 4-bit types.
constexpr std::array<float, 16> kNonLinear{-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

// 16 bytes of nibbles, as q4_0 has them, looked up in the table.
inline void non_linear_nibbles(const Byte* quants, float scale, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * kNonLinear[quants[i] & 15];
    out[i + 16] = scale * kNonLinear[static_cast<std::size_t>(quants[i] >> 4)];
  }
}

// half scale | 16 bytes of nibbles
void iq4_nl(const Byte* block, float* out) {
  non_linear_nibbles(block + 2, load_half(block), out);
}

// half scale | upper 2 bits of 8 group scales | 4 bytes of their lower nibbles | 8 times 16 bytes
void iq4_xs(const Byte* block, float* out) {
  const float scale = load_half(block);
  const std::uint32_t high = load_u16(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low4 = block[4 + group / 2] >> group % 2 * 4 & 15;
    const int high2 = static_cast<int>(high >> 2 * group & 3U);
    const float group_scale = scale * static_cast<float>((low4 | high2 << 4) - 32);
    non_linear_nibbles(block + 8 + group * 16, group_scale, out + group * 32);
  }
}

struct Entry {
  GgmlType type;
  StoredType stored;
};

template <int kValues, int kBytes, void (*Convert)(const Byte*, float*)>
constexpr StoredType block_type(std::string_view name) {
  return {name, kValues, kBytes, convert_blocks<kValues, kBytes, Convert>};
}

constexpr std::array kTypes{
    Entry{GgmlType::kF32, {"F32", 1, 4, f32_to_float}},
    Entry{GgmlType::kF16, {"F16", 1, 2, f16_to_float}},
    Entry{GgmlType::kBF16, {"BF16", 1, 2, bf16_to_float}},
    Entry{GgmlType::kQ4_0, block_type<32, 18, q4_0>("Q4_0")},
    Entry{GgmlType::kQ4_1, block_type<32, 20, q4_1>("Q4_1")},
    Entry{GgmlType::kQ5_0, block_type<32, 22, q5_0>("Q5_0")},
    Entry{GgmlType::kQ5_1, block_type<32, 24, q5_1>("Q5_1")},
    Entry{GgmlType::kQ8_0, block_type<32, 34, q8_0>("Q8_0")},
    Entry{GgmlType::kQ2_K, block_type<kSuperBlock, 84, q2_k>("Q2_K")},
    Entry{GgmlType::kQ3_K, block_type<kSuperBlock, 110, q3_k>("Q3_K")},
    Entry{GgmlType::kQ4_K, block_type<kSuperBlock, 144, q4_k>("Q4_K")},
    Entry{GgmlType::kQ5_K, block_type<kSuperBlock, 176, q5_k>("Q5_K")},
    Entry{GgmlType::kQ6_K, block_type<kSuperBlock, 210, q6_k>("Q6_K")},
    Entry{GgmlType::kIQ4_NL, block_type<32, 18, iq4_nl>("IQ4_NL")},
    Entry{GgmlType::kIQ4_XS, block_type<kSuperBlock, 136, iq4_xs>("IQ4_XS")},
};

}  // namespace

const StoredType* stored_type(GgmlType type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [type](const Entry& entry) { return entry.type == type; });
  return found == kTypes.end() ? nullptr : &found->stored;
}

std::string_view stored_type_names() {
  return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, "
         "IQ4_XS";
}

}  // namespace headrace
