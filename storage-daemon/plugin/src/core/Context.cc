// SPDX-License-Identifier: Apache-2.0
#include "core/Context.hh"

namespace beer {

thread_local const Context* Context::current_ = nullptr;

} // namespace beer
