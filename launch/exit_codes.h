// What `headrace` tells the shell. Scripts and SLURM's RequeueExit depend on the numbers.
#pragma once

namespace headrace {

inline constexpr int kExitSuccess = 0;     // all answered; equal; complete
inline constexpr int kExitUnexpected = 1;  // a failure that is not the user's
inline constexpr int kExitUsage = 2;       // usage, configuration or model error; nothing written
inline constexpr int kExitPartialFailure = 3;  // finished, some requests failed; different
inline constexpr int kExitResumable = 75;      // stopped by a signal or deadline: run it again

}  // namespace headrace
