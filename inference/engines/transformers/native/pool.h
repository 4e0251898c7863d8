// Threads that share the parts of a job out among them.
//
// Unlike OpenMP's, whoever calls `share` never waits for a thread that has not come: it waits for parts that were begun.
// So where other processes take a core away, a step becomes slower by what that core would have done, and no more; with
// a barrier of all threads, each of a step's hundreds of jobs would wait for the scheduler.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

typedef void (*Part)(const void *context, int64_t index);

#define CLOSED 0xffffffffu
#define SPINS 20000  // up to a millisecond, as long as a pause takes: longer than from one job of a step to the next

static struct {
  // The job's number, and in the lower half the next part that nobody has begun. Whoever raises it has begun that part;
  // it changes with each job, so that nobody who comes late begins a part of another job than the one he read.
  _Atomic uint64_t ticket;
  _Atomic(Part) part;
  _Atomic(const void *) context;
  _Atomic int64_t count, done;
  _Atomic int sleeping;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int threads;
} pool = {.ticket = CLOSED, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .threads = 1};

static inline void rest_a_little(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Begin a part of the job that is open, if there is one left, and do it.
static int do_part(void) {
  uint64_t ticket = atomic_load(&pool.ticket);
  Part part = atomic_load_explicit(&pool.part, memory_order_acquire);
  const void *context = atomic_load_explicit(&pool.context, memory_order_acquire);
  int64_t count = atomic_load_explicit(&pool.count, memory_order_acquire), index = ticket & CLOSED;
  if (index == CLOSED || index >= count) return 0;
  if (!atomic_compare_exchange_strong(&pool.ticket, &ticket, ticket + 1)) return 1;  // look again
  part(context, index);
  atomic_fetch_add(&pool.done, 1);
  return 1;
}

static void *help(void *unused) {
  (void)unused;
  for (int spins = 0;;) {
    if (do_part()) {
      spins = 0;
    } else if (++spins < SPINS) {
      rest_a_little();
    } else {
      pthread_mutex_lock(&pool.lock);
      uint64_t seen = atomic_load(&pool.ticket) >> 32;
      atomic_fetch_add(&pool.sleeping, 1);
      if (seen == atomic_load(&pool.ticket) >> 32) pthread_cond_wait(&pool.wake, &pool.lock);
      else atomic_fetch_sub(&pool.sleeping, 1);
      pthread_mutex_unlock(&pool.lock);
      spins = 0;
    }
  }
  return 0;
}

// Make the pool `threads` strong, the caller counted. Call it once.
int start_pool(int threads) {
  for (; pool.threads < threads; pool.threads++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, help, 0)) return 1;
    pthread_detach(thread);
  }
  return 0;
}

// Do `count` parts, and return when all are done. One caller at a time.
static void share(int64_t count, Part part, const void *context) {
  if (pool.threads == 1 || count == 1) {
    for (int64_t i = 0; i < count; i++) part(context, i);
    return;
  }
  uint64_t job = ((atomic_load(&pool.ticket) >> 32) + 1) << 32;
  atomic_store(&pool.ticket, job | CLOSED);
  // Released: whoever reads one of these has to find the ticket closed, or he would begin a part with the old one.
  atomic_store_explicit(&pool.part, part, memory_order_release);
  atomic_store_explicit(&pool.context, context, memory_order_release);
  atomic_store_explicit(&pool.count, count, memory_order_release);
  atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
  atomic_store(&pool.ticket, job);
  if (atomic_load(&pool.sleeping)) {
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.sleeping, 0);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
  }
  while (do_part()) continue;
  for (int spins = 0; atomic_load(&pool.done) < count; spins++)
    if (spins < SPINS / 10) rest_a_little();
    else sched_yield();  // who has begun it may be waiting for this core
}
