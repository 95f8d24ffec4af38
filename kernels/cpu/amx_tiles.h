// The tile registers of x86 (AMX): eight registers of 16 rows of 64 bytes, and instructions that
// multiply two of them. Kernels are written over a class of tiles, of which there are two:
// AmxTiles, and EmulatedAmxTiles, which does the same in AVX-512. See simd_math.h for the unnamed
// namespace.
//
// A tile of dwords C += A times B, A [rows, 16 dwords], B [16 dwords, 16 columns], C [rows, 16]:
//   bfloat16  a dword is two elements of the sum. The even ones are a chain of fused multiply-adds
//             from zero, so are the odd ones; both are added, and their sum is added to C. Rounded
//             to nearest even, denormals are zeros whatever MXCSR says (Intel's manual, TDPBF16PS).
//   int8      a dword is four elements; sums are exact.
#pragma once

#include <cstdint>

namespace headrace {
namespace {

inline constexpr int kAmxRows = 16;
inline constexpr int kAmxDwords = 16;  // of a row: elements of A and C, columns of B
inline constexpr int kNumAmxTiles = 8;

// Rows and dwords of each tile, as LDTILECFG reads them.
struct alignas(64) AmxShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int num_rows, int dwords = kAmxDwords) {
    rows[tile] = static_cast<std::uint8_t>(num_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(dwords * 4);
  }
};
static_assert(sizeof(AmxShapes) == 64);

// One lives while a thread uses tiles; they are set anew with every configure().
class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  /// So that a switch of threads has no tiles to save.
  ~AmxTiles() { asm volatile("tilerelease" ::: "memory"); }

  void configure(const AmxShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
  }
  template <int T>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  /// stride: of rows, in dwords.
  template <int T>
  void load(const void* from, std::int64_t stride = kAmxDwords) {
    asm volatile("tileloadd (%0,%1,4), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
  }
  /// The same of what is read once in a while: it does not stay in the L1 cache at the cost of what
  /// is read again soon. 208 rows x 576 x 960 take 0.86 of the time, x 3072 0.87.
  template <int T>
  void load_passing(const void* from, std::int64_t stride = kAmxDwords) {
    asm volatile("tileloaddt1 (%0,%1,4), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  void store(void* to, std::int64_t stride = kAmxDwords) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,4)" : : "r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  void add_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
  /// Both signed.
  template <int C, int A, int B>
  void add_int8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace headrace
