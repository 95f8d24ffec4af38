// Which kernels run here, by what CPUID reports. All of them give the same bits.
#include <cpuid.h>

#include <stdexcept>
#include <string>

#include "kernels/cpu/kernel_table.h"

namespace headrace {
namespace {

/// Not every compiler's __builtin_cpu_supports knows "f16c".
bool supports_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

struct Features {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c();
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool avx512_vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16");

  /// The instruction's rate differs: on Zen 4 it does twice the products of float32 multiply-adds;
  /// on Emerald Rapids it starts every other cycle where two multiply-adds start every cycle, so
  /// that two of those on expanded halves do twice its products.
  bool fast_bf16_dot = avx512_bf16 && __builtin_cpu_is("amd");
};

const Features& features() {
  static const Features found;
  return found;
}

std::string list_features() {
  std::string list;
  const auto add = [&list](bool present, const char* name) {
    if (present) list += (list.empty() ? "" : " ") + std::string(name);
  };
  add(features().avx2, "avx2");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(features().avx512, "avx512");
  add(features().avx512_vnni, "avx512_vnni");
  add(features().avx512_bf16, "avx512_bf16");
  return list.empty() ? "none" : list;
}

}  // namespace

std::string_view cpu_features() {
  static const std::string list = list_features();
  return list;
}

const KernelTable& choose_kernels(std::string_view isa, DType compute_dtype) {
  const Features& f = features();
  const bool bf16 = compute_dtype == DType::kBFloat16;
  if (isa == "auto") {
    if (bf16 && f.fast_bf16_dot) return avx512_bf16_kernels();
    if (f.avx512) return avx512_kernels(compute_dtype);
    if (f.avx2) return avx2_kernels(compute_dtype);
    return portable_kernels(compute_dtype);
  }
  if (isa == "portable") return portable_kernels(compute_dtype);
  if (isa == "avx2" && f.avx2) return avx2_kernels(compute_dtype);
  if (isa == "avx512" && f.avx512) return avx512_kernels(compute_dtype);
  if (isa == "avx512_bf16" && f.avx512_bf16) {
    return bf16 ? avx512_bf16_kernels() : avx512_kernels(compute_dtype);
  }
  std::string offered = "auto, portable";
  if (f.avx2) offered += ", avx2";
  if (f.avx512) offered += ", avx512";
  if (f.avx512_bf16) offered += ", avx512_bf16";
  throw std::invalid_argument("isa '" + std::string(isa) + "': this CPU offers " + offered);
}

const Int8Kernels& choose_int8_kernels(std::string_view isa, DType compute_dtype) {
  const Features& f = features();
  if (isa == "portable" || !f.avx2) return portable_int8_kernels(compute_dtype);
  if (isa == "avx2" || !f.avx512_vnni) return avx2_int8_kernels(compute_dtype);
  return avx512_vnni_int8_kernels(compute_dtype);
}

}  // namespace headrace
