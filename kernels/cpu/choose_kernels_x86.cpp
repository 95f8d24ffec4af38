// Which kernels run here, by what CPUID reports. All of them give the same bits, but for those with
// tiles in bfloat16.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/// Tiles of bfloat16 and int8, by CPUID, and that Linux lets this process have their registers: it
/// is asked for them once, before any thread uses them.
bool may_use_amx() {
  constexpr unsigned kTilesAndProducts = 1U << 22 | 1U << 24 | 1U << 25;  // leaf 7, EDX
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTilesAndProducts) != kTilesAndProducts) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct Features {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c();
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool avx512_vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  bool amx = avx512_vnni && may_use_amx();

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
  add(features().amx, "amx");
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
  if (isa == "auto" || isa == "no_amx") {
    if (bf16 && f.amx && isa == "auto") return amx_kernels();
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
  if (isa == "amx" && f.amx) return bf16 ? amx_kernels() : avx512_kernels(compute_dtype);
  if (isa == "amx_emulated" && f.avx512_vnni) {
    return bf16 ? emulated_amx_kernels() : avx512_kernels(compute_dtype);
  }
  std::string offered = "auto, no_amx, portable";
  if (f.avx2) offered += ", avx2";
  if (f.avx512) offered += ", avx512";
  if (f.avx512_bf16) offered += ", avx512_bf16";
  if (f.amx) offered += ", amx";
  if (f.avx512_vnni) offered += ", amx_emulated";
  throw std::invalid_argument("isa '" + std::string(isa) + "': this CPU offers " + offered);
}

const Int8Kernels& choose_int8_kernels(std::string_view isa, DType compute_dtype) {
  const Features& f = features();
  if (isa == "portable" || !f.avx2) return portable_int8_kernels(compute_dtype);
  if (isa == "avx2" || !f.avx512_vnni) return avx2_int8_kernels(compute_dtype);
  if ((isa == "auto" || isa == "amx") && f.amx) return amx_int8_kernels(compute_dtype);
  if (isa == "amx_emulated") return emulated_amx_int8_kernels(compute_dtype);
  return avx512_vnni_int8_kernels(compute_dtype);
}

}  // namespace headrace
