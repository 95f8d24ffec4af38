// The emulator's twin of kernels/cuda/ptx.h: every instruction as plain code, written from the PTX
// manual's words.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/simt.h"
#include "kernels/numeric.h"

namespace headrace {

namespace emulator {

inline void do_copy(const AsyncCopy& copy) {
  auto* to = static_cast<std::uint8_t*>(copy.shared);
  const auto* from = static_cast<const std::uint8_t*>(copy.global);
  for (int i = 0; i < 16; ++i) to[i] = i < copy.bytes ? from[i] : std::uint8_t{0};
}

inline bool is_aligned_16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

}  // namespace emulator

inline void copy_async_16(void* shared, const void* global, int bytes,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!emulator::is_aligned_16(shared) || !emulator::is_aligned_16(global)) {
    emulator::fail("asynchronous copy of 16 bytes that are not aligned", {file, line});
  }
  if (bytes < 0 || bytes > 16) emulator::fail("asynchronous copy of too many bytes", {file, line});
  const emulator::AsyncCopy copy{shared, global, bytes};
  if (emulator::copy_happens_now(copy)) emulator::do_copy(copy);
}

inline void close_copy_group() {
  emulator::close_copy_group();
}

template <int kPending>
void wait_for_copies() {
  emulator::AsyncCopy copy;
  while (emulator::next_due_copy(kPending, copy)) emulator::do_copy(copy);
}

namespace emulator {

// Element `column` of row `row` of matrix `matrix`, of rows that the lanes named.
inline std::uint32_t matrix_element(const WarpSlots& slots, int matrix, int row, int column) {
  std::uint16_t element = 0;
  std::memcpy(&element, slots.bytes[matrix * 8 + row] + column * 2, 2);
  return element;
}

inline void gather_matrix_rows(WarpSlots& slots, const void* row, Site site) {
  if (!is_aligned_16(row)) fail("matrix row that is not aligned to 16 bytes", site);
  std::uint16_t own[8];
  for (int i = 0; i < 8; ++i) own[i] = static_cast<const std::uint16_t*>(row)[i];
  gather({.operation = WarpOperation::kMatrixLoad,
          .mask = kWholeWarp,
          .data = own,
          .bytes = sizeof(own),
          .site = site},
         slots);
}

}  // namespace emulator

inline void load_matrices(std::uint32_t (&out)[4], const void* row,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::WarpSlots slots;
  emulator::gather_matrix_rows(slots, row, {file, line});
  const int lane = lane_index();
  for (int m = 0; m < 4; ++m) {
    out[m] = emulator::matrix_element(slots, m, lane / 4, lane % 4 * 2) |
             emulator::matrix_element(slots, m, lane / 4, lane % 4 * 2 + 1) << 16;
  }
}

inline void load_matrices_transposed(std::uint32_t (&out)[4], const void* row,
                                     const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
  emulator::WarpSlots slots;
  emulator::gather_matrix_rows(slots, row, {file, line});
  const int lane = lane_index();
  for (int m = 0; m < 4; ++m) {
    out[m] = emulator::matrix_element(slots, m, lane % 4 * 2, lane / 4) |
             emulator::matrix_element(slots, m, lane % 4 * 2 + 1, lane / 4) << 16;
  }
}

struct Fragments {
  const std::uint32_t (&a)[4];
  std::uint32_t b0;
  std::uint32_t b1;
};

namespace emulator {

struct MultiplyDeposit {
  std::uint32_t a[4];
  std::uint32_t b[2];
};

// One element out of all lanes' fragments.
inline std::uint16_t a_element(const WarpSlots& slots, int row, int k) {
  MultiplyDeposit theirs;
  std::memcpy(&theirs, slots.bytes[row % 8 * 4 + k % 8 / 2], sizeof(theirs));
  return static_cast<std::uint16_t>(theirs.a[row / 8 + k / 8 * 2] >> (k % 2 * 16));
}
inline std::uint16_t b_element(const WarpSlots& slots, int k, int column) {
  MultiplyDeposit theirs;
  std::memcpy(&theirs, slots.bytes[column * 4 + k % 8 / 2], sizeof(theirs));
  return static_cast<std::uint16_t>(theirs.b[k / 8] >> (k % 2 * 16));
}

// The four elements of this lane, k ascending. A tensor core aligns and truncates in its own way.
template <class Convert>
void multiply(float (&sum)[4], const Fragments& f, Site site, const Convert& convert) {
  const MultiplyDeposit own{{f.a[0], f.a[1], f.a[2], f.a[3]}, {f.b0, f.b1}};
  WarpSlots slots;
  gather({.operation = WarpOperation::kMultiply,
          .mask = kWholeWarp,
          .data = &own,
          .bytes = sizeof(own),
          .site = site},
         slots);
  const int row = lane_index() / 4;
  const int column = lane_index() % 4 * 2;
  for (int k = 0; k < 16; ++k) {
    const float a[2] = {convert(a_element(slots, row, k)), convert(a_element(slots, row + 8, k))};
    const float b[2] = {convert(b_element(slots, k, column)),
                        convert(b_element(slots, k, column + 1))};
    for (int i = 0; i < 4; ++i) sum[i] += a[i / 2] * b[i % 2];
  }
}

}  // namespace emulator

inline void multiply_bf16(float (&sum)[4], const Fragments& f, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  emulator::multiply(sum, f, {file, line}, [](std::uint16_t bits) { return bf16_to_float(bits); });
}

inline void multiply_f16(float (&sum)[4], const Fragments& f, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  emulator::multiply(sum, f, {file, line}, [](std::uint16_t bits) { return f16_to_float(bits); });
}

inline std::uint32_t pack_bf16(float low, float high) {
  return float_to_bf16(low) | static_cast<std::uint32_t>(float_to_bf16(high)) << 16;
}

inline std::uint32_t pack_f16(float low, float high) {
  return float_to_f16(low) | static_cast<std::uint32_t>(float_to_f16(high)) << 16;
}

inline float unpack_f16(std::uint16_t bits) {
  return f16_to_float(bits);
}

}  // namespace headrace
