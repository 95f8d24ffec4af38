// What the emulator tells the sanitizers, which cannot know of its fibers and barriers by
// themselves. Without them all of it is nothing. The emulator itself is never instrumented, so that
// only what kernels do is seen; HEADRACE_EMULATE_TSAN and HEADRACE_EMULATE_ASAN say what its
// program is.
#pragma once

#include <cstddef>

#if defined(HEADRACE_EMULATE_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#elif defined(HEADRACE_EMULATE_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                     std::size_t* size_old);
void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
}
#endif

namespace headrace::emulator {

#if defined(HEADRACE_EMULATE_TSAN)
inline constexpr bool kThreadSanitizer = true;
/// Orders what the thread did before for whoever acquires the object later.
inline void tell_release(void* object) {
  __tsan_release(object);
}
inline void tell_acquire(void* object) {
  __tsan_acquire(object);
}
#else
inline constexpr bool kThreadSanitizer = false;
inline void tell_release(void* /*object*/) {}
inline void tell_acquire(void* /*object*/) {}
#endif

/// Acquires an object when its scope is left, whichever way.
class AcquireAtEnd {
 public:
  explicit AcquireAtEnd(void* object) : object_(object) {}
  ~AcquireAtEnd() { tell_acquire(object_); }
  AcquireAtEnd(const AcquireAtEnd&) = delete;
  AcquireAtEnd& operator=(const AcquireAtEnd&) = delete;

 private:
  void* object_;
};

/// While one lives, accesses of this thread are the emulator's own and are not looked at; memory
/// that is allocated counts as never used before.
class OwnBusiness {
 public:
#if defined(HEADRACE_EMULATE_TSAN)
  OwnBusiness() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~OwnBusiness() {
    end();
  }
  /// For a thread that will not come back to its destructor.
  static void end() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  OwnBusiness() {}
  ~OwnBusiness() {}
  static void end() {}
#endif
  OwnBusiness(const OwnBusiness&) = delete;
  OwnBusiness& operator=(const OwnBusiness&) = delete;
};

}  // namespace headrace::emulator
