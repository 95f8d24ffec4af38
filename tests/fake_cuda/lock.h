// The one lock of the fakes, and how their threads wait. Not the library's: the thread sanitizer
// would take those for an order between streams that CUDA does not promise.
#pragma once

#include <cstdint>

#include "tests/fake_cuda/sanitizers.h"

namespace headrace::fake_cuda {

/// Holds the lock of all the fakes' state; what its holder touches is the fakes' own business. For
/// short work only.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  OwnBusiness own_;
};

/// Sleeps until somebody calls wake_all(), or for a short while. Not under the lock; the caller
/// asks again for what it waits for.
void nap(std::uint32_t since);
/// What to give to nap(), taken before the caller asks for what it waits for.
std::uint32_t wake_count();
void wake_all();

/// Microseconds of a steady clock.
std::int64_t now_us();
void sleep_us(std::int64_t us);

}  // namespace headrace::fake_cuda
