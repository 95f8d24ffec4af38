// Which kernels run on 64-bit ARM, by what the kernel reports. All of them give the same bits.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <stdexcept>
#include <string>

#include "kernels/cpu/kernel_table.h"

namespace headrace {
namespace {

bool has_dot_product() {
  static const bool found = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return found;
}

}  // namespace

std::string_view cpu_features() {
  return has_dot_product() ? "neon neon_dot" : "neon";
}

// "neon_dot" differs from "neon" in products of integers alone.
const KernelTable& choose_kernels(std::string_view isa, DType compute_dtype) {
  if (isa == "portable") return portable_kernels(compute_dtype);
  const bool any = isa == "auto" || isa == "no_amx" || isa == "neon";
  if (any || (isa == "neon_dot" && has_dot_product())) return neon_kernels(compute_dtype);
  throw std::invalid_argument("isa '" + std::string(isa) +
                              "': this CPU offers auto, portable, neon" +
                              (has_dot_product() ? ", neon_dot" : ""));
}

const Int8Kernels& choose_int8_kernels(std::string_view isa, DType compute_dtype) {
  if (isa == "portable") return portable_int8_kernels(compute_dtype);
  if (isa == "neon" || !has_dot_product()) return neon_int8_kernels(compute_dtype);
  return neon_dot_int8_kernels(compute_dtype);
}

}  // namespace headrace
