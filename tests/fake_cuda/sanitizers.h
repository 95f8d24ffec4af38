// What the fakes tell the thread sanitizer. They are never instrumented, and their lock (lock.h) is
// none that it knows, so that the only order it sees between streams and the host is the one that
// CUDA promises; what they read and write on behalf of a stream they have to say.
// HEADRACE_FAKE_TSAN: their program is looked at by it.
#pragma once

#include <cstddef>

#if defined(HEADRACE_FAKE_TSAN)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace headrace::fake_cuda {

#if defined(HEADRACE_FAKE_TSAN)
/// Orders what the thread did before for whoever acquires the object later.
inline void tell_release(void* object) {
  __tsan_release(object);
}
inline void tell_acquire(void* object) {
  __tsan_acquire(object);
}
inline void tell_read(const void* address, std::size_t bytes) {
  __tsan_read_range(const_cast<void*>(address), bytes);
}
inline void tell_written(void* address, std::size_t bytes) {
  __tsan_write_range(address, bytes);
}
#else
inline void tell_release(void* /*object*/) {}
inline void tell_acquire(void* /*object*/) {}
inline void tell_read(const void* /*address*/, std::size_t /*bytes*/) {}
inline void tell_written(void* /*address*/, std::size_t /*bytes*/) {}
#endif

/// While one lives, accesses of this thread are the fakes' own and are not looked at.
class OwnBusiness {
 public:
#if defined(HEADRACE_FAKE_TSAN)
  OwnBusiness() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~OwnBusiness() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  OwnBusiness() {}
  ~OwnBusiness() {}
#endif
  OwnBusiness(const OwnBusiness&) = delete;
  OwnBusiness& operator=(const OwnBusiness&) = delete;
};

}  // namespace headrace::fake_cuda
