// A decoder of the Llama family on a CPU: one call computes a step for all its rows.
//
// Weights, keys, values and the inputs of matrix products are bfloat16, sums and the residual stream are float. Each
// output is summed in the same order whatever the number of rows, and each row reads its own context alone. So a
// sequence gets the same numbers in any batch, in any chunks, after any restart.
//
// Everything multiplied by a vector is packed for it: blocks of 16 columns, each [depth / 2][16][2], so that one load
// brings two values of 16 columns. Keys are packed by slot (their depth is head_dim), values by head_dim (their depth is
// slots), 16 slots a block: attention is two such products.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef uint16_t bf16;
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef uint32_t u16 __attribute__((vector_size(64)));
typedef uint16_t h16 __attribute__((vector_size(32)));
typedef int16_t s16 __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define MAX_DIM 256  // of a head

// Rows and column blocks summed at once, and queries that attend at once: what fits the registers.
#ifdef __AVX512F__
enum { ROWS = 8, COLS = 3, QUERIES = 12 };
#else
enum { ROWS = 4, COLS = 1, QUERIES = 6 };
#endif

// A packed matrix: bfloat16, or int8 with a scale for each column.
typedef struct {
  const void *values;
  const float *scales;  // null for bfloat16
} Matrix;

typedef struct {
  const float *attention_norm, *qkv_bias, *q_norm, *k_norm, *mlp_norm;  // bias and norms of heads may be null
  Matrix qkv, output, gate_up, down;
} Layer;

typedef struct {
  int64_t layers, hidden, heads, kv_heads, head_dim, inner, vocab, blocks;
  float eps, scale;
  const Layer *layer;
  const float *final_norm, *cosines, *sines;  // [positions][head_dim]
  Matrix head;                                // hidden to vocab
  bf16 *keys, *values;                        // [layers][kv_heads][blocks][16 * head_dim]
} Model;

typedef struct {
  int64_t rows, outputs, table_width;
  const int32_t *positions, *sequences;  // of each row
  const int32_t *tables;                 // [sequences][table_width]: the blocks of each
  const int32_t *output_rows;            // rising
  float *stream;                         // [rows][hidden]: the embeddings; overwritten
  bf16 *normed, *projected, *attended, *gated;  // [rows][hidden], [widest], [heads * head_dim], [inner]
  float *logits;                         // [outputs][vocab]
} Step;

INLINE float widen(bf16 x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

INLINE bf16 narrow(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;  // NaN stays NaN
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

INLINE v16 load(const float *from) {
  v16 value;
  memcpy(&value, from, 64);
  return value;
}

INLINE v16 load_wide(const bf16 *from) {
  h16 halves;
  memcpy(&halves, from, 32);
  return (v16)(__builtin_convertvector(halves, u16) << 16);
}

INLINE void store_narrow(bf16 *to, v16 value) {
#ifdef __AVX512BF16__
  __m256bh narrowed = _mm512_cvtneps_pbh((__m512)value);
  memcpy(to, &narrowed, 32);
#else
  for (int i = 0; i < LANES; i++) to[i] = narrow(value[i]);
#endif
}

INLINE float sum_of(v16 value) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps((__m512)value);
#else
  float sum = 0;
  for (int i = 0; i < LANES; i++) sum += value[i];
  return sum;
#endif
}

INLINE float max_of(v16 value) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps((__m512)value);
#else
  float max = value[0];
  for (int i = 1; i < LANES; i++) max = value[i] > max ? value[i] : max;
  return max;
#endif
}

// Where the mask is set the first, else the second.
INLINE v16 choose(i16 mask, v16 first, v16 second) { return (v16)(((i16)first & mask) | ((i16)second & ~mask)); }

INLINE v16 all(float x) { return (v16){} + x; }

// exp(x) for x up to 88 (exp(-87), which is next to nothing, for all below -87): 2^n times a polynomial of what is left.
INLINE v16 exp_of(v16 x) {
  x = choose(x > -87.0f, choose(x < 88.0f, x, all(88.0f)), all(-87.0f));
  v16 scaled = x * 1.44269504f;
  i16 n = __builtin_convertvector(scaled + choose(scaled > 0.0f, all(0.5f), all(-0.5f)), i16);
  v16 whole = __builtin_convertvector(n, v16);
  v16 rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  v16 sum = (v16){} + 1.9875691500e-4f;
  sum = sum * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  sum = sum * rest * rest + rest + 1.0f;
  return sum * (v16)((n + 127) << 23);
}

// sum + x[0] * (the even values of w) + x[1] * (the odd ones)
INLINE v16 add_products(v16 sum, const bf16 *x, u16 w) {
#ifdef __AVX512BF16__
  int pair;
  memcpy(&pair, x, 4);
  return (v16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32(pair));
#else
  sum += (v16)(w << 16) * widen(x[0]);
  return sum + (v16)(w & 0xffff0000u) * widen(x[1]);
#endif
}

INLINE u16 load_pairs(const bf16 *from) {
  u16 pairs;
  memcpy(&pairs, from, 64);
  return pairs;
}

// The pairs at an index of packed weights, as bfloat16; what int8 holds is exact in it.
INLINE u16 load_weights(const int quantized, const void *weights, int64_t at) {
  if (!quantized) return load_pairs((const bf16 *)weights + at);
  const int8_t *from = (const int8_t *)weights + at;
#ifdef __AVX512BF16__
  __m128i low, high;
  memcpy(&low, from, 16);
  memcpy(&high, from + 16, 16);
  return (u16)_mm512_cvtne2ps_pbh(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high)),
                                  _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low)));
#else
  s16 pairs;
  memcpy(&pairs, from, 32);
  v16 even = __builtin_convertvector((s16)(pairs << 8) >> 8, v16), odd = __builtin_convertvector(pairs >> 8, v16);
  return ((u16)odd & 0xffff0000u) | ((u16)even >> 16);
#endif
}

// What becomes of a product.
typedef enum { NARROW, ADD, FLOAT } Sink;

typedef struct {
  Sink sink;
  const float *scales, *bias;  // of columns; may be null
  void *to;           // [rows][width], bf16 or float
  int64_t width;
} Output;

INLINE void emit(Output out, int64_t row, int64_t column, v16 sum) {
  int64_t left = out.width - column;
  int count = left < LANES ? left : LANES;
  if (out.scales)
    for (int i = 0; i < count; i++) sum[i] *= out.scales[column + i];
  if (out.bias)
    for (int i = 0; i < count; i++) sum[i] += out.bias[column + i];
  if (out.sink == NARROW) {
    bf16 *to = (bf16 *)out.to + row * out.width + column;
    if (count == LANES) store_narrow(to, sum);
    else for (int i = 0; i < count; i++) to[i] = narrow(sum[i]);
  } else {
    float *to = (float *)out.to + row * out.width + column;
    if (out.sink == ADD)
      for (int i = 0; i < count; i++) to[i] += sum[i];
    else
      memcpy(to, &sum, count * sizeof(float));
  }
}

INLINE void tile(const int rows, const int cols, const int quantized, const bf16 *x, int64_t row, int64_t depth,
                 const void *w, int64_t column, Output out) {
  v16 sums[ROWS][COLS] = {};
  x += row * depth;
  for (int64_t k = 0; k < depth; k += 2) {
    u16 weights[COLS];
    for (int c = 0; c < cols; c++) weights[c] = load_weights(quantized, w, ((column + c * LANES) / LANES * depth + k) * LANES);
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < cols; c++) sums[r][c] = add_products(sums[r][c], x + r * depth + k, weights[c]);
  }
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c++) emit(out, row + r, column + c * LANES, sums[r][c]);
}

INLINE void strip(const int cols, const int quantized, const bf16 *x, int64_t rows, int64_t depth, const void *w,
                  int64_t column, Output out) {
  int64_t row = 0;
  for (; row + ROWS <= rows; row += ROWS) tile(ROWS, cols, quantized, x, row, depth, w, column, out);
  switch (rows - row) {
#define REST(n) case n: if (n < ROWS) tile(n < ROWS ? n : ROWS, cols, quantized, x, row, depth, w, column, out); break;
    REST(1) REST(2) REST(3) REST(4) REST(5) REST(6) REST(7)
#undef REST
  }
}

typedef struct {
  const bf16 *x;
  int64_t rows, depth;
  const void *weights;
  Output out;
} Product;

INLINE void multiply_columns(const int quantized, const Product *p, int64_t from) {
  if (from + COLS * LANES <= p->out.width) {
    strip(COLS, quantized, p->x, p->rows, p->depth, p->weights, from, p->out);
    return;
  }
  for (int64_t at = from; at < p->out.width; at += LANES)
    strip(1, quantized, p->x, p->rows, p->depth, p->weights, at, p->out);
}

static void multiply_part(const void *context, int64_t index) {
  const Product *p = context;
  if (p->out.scales) multiply_columns(1, p, index * COLS * LANES);
  else multiply_columns(0, p, index * COLS * LANES);
}

// x [rows][depth] times weights [depth][out.width].
static void multiply(const bf16 *x, int64_t rows, int64_t depth, const Matrix *weights, Output out) {
  out.scales = weights->scales;
  Product product = {x, rows, depth, weights->values, out};
  share((out.width + COLS * LANES - 1) / (COLS * LANES), multiply_part, &product);
}

// What is done row by row is shared out by so many rows: less is not worth telling another thread of it.
#define ROWS_OF_A_PART 8

typedef struct {
  const float *x, *weight;
  int64_t rows, width;
  float eps;
  bf16 *to;
} Norm;

static void normalise_part(const void *context, int64_t index) {
  const Norm *n = context;
  for (int64_t row = index * ROWS_OF_A_PART; row < n->rows && row < (index + 1) * ROWS_OF_A_PART; row++) {
    const float *from = n->x + row * n->width;
    bf16 *to = n->to + row * n->width;
    v16 squares = {};
    for (int64_t i = 0; i < n->width; i += LANES) squares += load(from + i) * load(from + i);
    float factor = 1.0f / sqrtf(sum_of(squares) / n->width + n->eps);
    for (int64_t i = 0; i < n->width; i += LANES) store_narrow(to + i, load(from + i) * factor * load(n->weight + i));
  }
}

static void share_rows(int64_t rows, Part part, const void *context) {
  share((rows + ROWS_OF_A_PART - 1) / ROWS_OF_A_PART, part, context);
}

static void normalise(const float *x, int64_t rows, int64_t width, const float *weight, float eps, bf16 *to) {
  Norm norm = {x, weight, rows, width, eps, to};
  share_rows(rows, normalise_part, &norm);
}

// Normalise a head where the model does, and turn it to its position.
static void turn(bf16 *head, int64_t dim, const float *norm, float eps, const float *cosines, const float *sines) {
  float value[MAX_DIM];
  for (int64_t i = 0; i < dim; i++) value[i] = widen(head[i]);
  if (norm) {
    float squares = 0;
    for (int64_t i = 0; i < dim; i++) squares += value[i] * value[i];
    float factor = 1.0f / sqrtf(squares / dim + eps);
    for (int64_t i = 0; i < dim; i++) value[i] *= factor * norm[i];
  }
  int64_t half = dim / 2;
  for (int64_t i = 0; i < half; i++) {
    head[i] = narrow(value[i] * cosines[i] - value[i + half] * sines[i]);
    head[i + half] = narrow(value[i + half] * cosines[i + half] + value[i] * sines[i + half]);
  }
}

static void keep_key(bf16 *block, int64_t slot, const bf16 *key, int64_t dim) {
  for (int64_t i = 0; i < dim; i++) block[(i / 2 * LANES + slot) * 2 + i % 2] = key[i];
}

static void keep_value(bf16 *block, int64_t slot, const bf16 *value, int64_t dim) {
  for (int64_t i = 0; i < dim; i++) block[(slot / 2 * dim + i) * 2 + slot % 2] = value[i];
}

static bf16 *block_of(bf16 *cache, const Model *m, int64_t layer, int64_t kv_head, int64_t block) {
  return cache + ((layer * m->kv_heads + kv_head) * m->blocks + block) * LANES * m->head_dim;
}

static int64_t block_at(const Step *s, int64_t row) {
  return s->tables[s->sequences[row] * s->table_width + s->positions[row] / LANES];
}

typedef struct {
  const Model *model;
  const Step *step;
  int64_t layer;
} Place;

static void take_in_part(const void *context, int64_t index) {
  const Place *p = context;
  const Model *m = p->model;
  const Step *s = p->step;
  const Layer *l = m->layer + p->layer;
  int64_t dim = m->head_dim, width = (m->heads + 2 * m->kv_heads) * dim;
  for (int64_t row = index * ROWS_OF_A_PART; row < s->rows && row < (index + 1) * ROWS_OF_A_PART; row++) {
    int64_t position = s->positions[row], block = block_at(s, row);
    const float *cosines = m->cosines + position * dim, *sines = m->sines + position * dim;
    bf16 *query = s->projected + row * width, *key = query + m->heads * dim, *value = key + m->kv_heads * dim;
    for (int64_t h = 0; h < m->heads; h++) turn(query + h * dim, dim, l->q_norm, m->eps, cosines, sines);
    for (int64_t h = 0; h < m->kv_heads; h++) {
      turn(key + h * dim, dim, l->k_norm, m->eps, cosines, sines);
      keep_key(block_of(m->keys, m, p->layer, h, block), position % LANES, key + h * dim, dim);
      keep_value(block_of(m->values, m, p->layer, h, block), position % LANES, value + h * dim, dim);
    }
  }
}

// Turn queries and keys, and keep keys and values.
static void take_in(const Model *m, const Step *s, int64_t layer) {
  for (int64_t row = 0; row < s->rows; row++)
    if (s->positions[row] % LANES == 0)  // what an earlier owner left may be NaN, which a weight of 0 does not silence
      for (int64_t h = 0; h < m->kv_heads; h++)
        memset(block_of(m->values, m, layer, h, block_at(s, row)), 0, LANES * m->head_dim * sizeof(bf16));
  share_rows(s->rows, take_in_part, &(Place){m, s, layer});
}

// One head of one row, on its way through its context.
typedef struct {
  const bf16 *query;
  bf16 *to;
  int64_t length;
  float highest, total;
} Query;

// Some queries of one sequence that share keys: softmax over the context, block by block, and the values it weighs.
// What lies beyond a query's own length changes nothing of it, not by a bit.
INLINE void attend_queries(const int count, Query *q, const Model *m, const bf16 *keys, const bf16 *values,
                           const int32_t *table) {
  const int64_t dim = m->head_dim, size = LANES * dim;
  const v16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  v16 sums[MAX_DIM / LANES][QUERIES];
  int64_t longest = 0;
  for (int i = 0; i < count; i++) {
    q[i].highest = -INFINITY;
    q[i].total = 0;
    longest = q[i].length > longest ? q[i].length : longest;
    for (int64_t d = 0; d < dim / LANES; d++) sums[d][i] = all(0);
  }
  for (int64_t at = 0; at < longest; at += LANES) {
    const bf16 *k = keys + table[at / LANES] * size, *v = values + table[at / LANES] * size;
    v16 scores[QUERIES] = {};
    for (int64_t d = 0; d < dim; d += 2) {
      u16 pairs = load_pairs(k + d * LANES);
      for (int i = 0; i < count; i++) scores[i] = add_products(scores[i], q[i].query + d, pairs);
    }
    bf16 weights[QUERIES][LANES];
    for (int i = 0; i < count; i++) {
      i16 visible = lane < (float)(q[i].length - at);
      v16 score = choose(visible, scores[i] * m->scale, all(-INFINITY));
      float high = max_of(score);
      if (high > q[i].highest) {
        float factor = expf(q[i].highest - high);
        for (int64_t d = 0; d < dim / LANES; d++) sums[d][i] *= factor;
        q[i].total *= factor;
        q[i].highest = high;
      }
      v16 weight = choose(visible, exp_of(score - q[i].highest), all(0));
      q[i].total += sum_of(weight);
      store_narrow(weights[i], weight);
    }
    for (int64_t d = 0; d < dim / LANES; d++) {
      v16 sum[QUERIES];
      for (int i = 0; i < count; i++) sum[i] = sums[d][i];
      for (int64_t slot = 0; slot < LANES; slot += 2) {
        u16 pairs = load_pairs(v + slot * dim + d * LANES * 2);
        for (int i = 0; i < count; i++) sum[i] = add_products(sum[i], weights[i] + slot, pairs);
      }
      for (int i = 0; i < count; i++) sums[d][i] = sum[i];
    }
  }
  for (int i = 0; i < count; i++)
    for (int64_t d = 0; d < dim / LANES; d++) store_narrow(q[i].to + d * LANES, sums[d][i] / q[i].total);
}

static void attend_some(int count, Query *q, const Model *m, const bf16 *keys, const bf16 *values,
                        const int32_t *table) {
  switch (count) {
#define SOME(n) case n: if (n <= QUERIES) attend_queries(n <= QUERIES ? n : 1, q, m, keys, values, table); break;
    SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6) SOME(7) SOME(8) SOME(9) SOME(10) SOME(11) SOME(12)
#undef SOME
  }
}

// The rows from `first` to before `last` are of one sequence.
static void attend_rows(const Model *m, const Step *s, int64_t layer, int64_t kv_head, int64_t first, int64_t last) {
  int64_t dim = m->head_dim, width = (m->heads + 2 * m->kv_heads) * dim, group = m->heads / m->kv_heads;
  const bf16 *keys = block_of(m->keys, m, layer, kv_head, 0), *values = block_of(m->values, m, layer, kv_head, 0);
  const int32_t *table = s->tables + s->sequences[first] * s->table_width;
  Query queries[QUERIES];
  int count = 0;
  for (int64_t row = first; row < last; row++)
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
      queries[count++] = (Query){.query = s->projected + row * width + h * dim,
                                 .to = s->attended + (row * m->heads + h) * dim,
                                 .length = s->positions[row] + 1};
      if (count == QUERIES) attend_some(count, queries, m, keys, values, table), count = 0;
    }
  attend_some(count, queries, m, keys, values, table);
}

// Whether a row is the first of a turn: neighbouring rows of one sequence read its keys together, up to so many.
INLINE int begins_turn(const Step *s, int64_t row, int64_t together) {
  return row == 0 || s->sequences[row - 1] != s->sequences[row] || s->positions[row] % together == 0;
}

static void attend_part(const void *context, int64_t index) {
  const Place *p = context;
  const Step *s = p->step;
  int64_t kv_heads = p->model->kv_heads, group = p->model->heads / kv_heads;
  int64_t together = QUERIES / group > 1 ? QUERIES / group : 1, row = index / kv_heads, last = row + 1;
  if (!begins_turn(s, row, together)) return;
  while (last < s->rows && !begins_turn(s, last, together)) last++;
  attend_rows(p->model, s, p->layer, index % kv_heads, row, last);
}

static void attend(const Model *m, const Step *s, int64_t layer) {
  share(s->rows * m->kv_heads, attend_part, &(Place){m, s, layer});
}

// Gates and ups stand side by side in each row.
static void gate_part(const void *context, int64_t index) {
  const Place *p = context;
  const Step *s = p->step;
  int64_t inner = p->model->inner;
  for (int64_t row = index * ROWS_OF_A_PART; row < s->rows && row < (index + 1) * ROWS_OF_A_PART; row++)
    for (int64_t i = 0; i < inner; i += LANES) {
      v16 gates = load_wide(s->projected + row * 2 * inner + i);
      v16 ups = load_wide(s->projected + (row * 2 + 1) * inner + i);
      store_narrow(s->gated + row * inner + i, gates / (exp_of(-gates) + 1.0f) * ups);
    }
}

static void gate(const Model *m, const Step *s, int64_t layer) {
  share_rows(s->rows, gate_part, &(Place){m, s, layer});
}

// Compute a step: the logits of the output rows, from the embeddings of all rows.
void step(const Model *m, const Step *s) {
  int64_t width = m->heads * m->head_dim, qkv = width + 2 * m->kv_heads * m->head_dim;
  for (int64_t i = 0; i < m->layers; i++) {
    const Layer *l = m->layer + i;
    normalise(s->stream, s->rows, m->hidden, l->attention_norm, m->eps, s->normed);
    multiply(s->normed, s->rows, m->hidden, &l->qkv, (Output){NARROW, .bias = l->qkv_bias, .to = s->projected, .width = qkv});
    take_in(m, s, i);
    attend(m, s, i);
    multiply(s->attended, s->rows, width, &l->output, (Output){ADD, .to = s->stream, .width = m->hidden});
    normalise(s->stream, s->rows, m->hidden, l->mlp_norm, m->eps, s->normed);
    multiply(s->normed, s->rows, m->hidden, &l->gate_up, (Output){NARROW, .to = s->projected, .width = 2 * m->inner});
    gate(m, s, i);
    multiply(s->gated, s->rows, m->inner, &l->down, (Output){ADD, .to = s->stream, .width = m->hidden});
  }
  for (int64_t i = 0; i < s->outputs; i++)
    memmove(s->stream + i * m->hidden, s->stream + s->output_rows[i] * m->hidden, m->hidden * sizeof(float));
  normalise(s->stream, s->outputs, m->hidden, m->final_norm, m->eps, s->normed);
  multiply(s->normed, s->outputs, m->hidden, &m->head, (Output){FLOAT, .to = s->logits, .width = m->vocab});
}

// Drawing tokens ------------------------------------------------------------------------------------------------------

typedef struct {
  float temperature, top_p;  // below `coldest` the likeliest token is taken
  int32_t top_k;             // 0 is all
  uint32_t keys[2];          // of seed and position
} Draw;

#define BUCKETS 4065  // of weights from 0 to 1, by the leading bits of a float; the likeliest token is in the last

typedef struct {
  float weight;
  int32_t token;
} Candidate;

// -log(1 - u) for u from 0 to below 1; exact for small u, which is where races are won.
INLINE v16 exponential_of(v16 u) {
  v16 small = u * (u * (u * (u * 0.25f + 0.33333333f) + 0.5f) + 1.0f);
  v16 rest = 1.0f - u;
  i16 bits = (i16)rest, n = ((bits >> 23) & 0xff) - 126;
  v16 mantissa = (v16)((bits & 0x007fffff) | 0x3f000000);  // from 0.5 to 1
  i16 low = mantissa < 0.70710678f;
  n += low;
  v16 x = mantissa + choose(low, mantissa, all(0)) - 1.0f, square = x * x;
  v16 sum = all(7.0376836292e-2f);
  sum = sum * x - 1.1514610310e-1f;
  sum = sum * x + 1.1676998740e-1f;
  sum = sum * x - 1.2420140846e-1f;
  sum = sum * x + 1.4249322787e-1f;
  sum = sum * x - 1.6668057665e-1f;
  sum = sum * x + 2.0000714765e-1f;
  sum = sum * x - 2.4999993993e-1f;
  sum = sum * x + 3.3333331174e-1f;
  v16 log = x * square * sum - 0.5f * square + x + __builtin_convertvector(n, v16) * 0.69314718f;
  return choose(u < 0.02f, small, -log);
}

INLINE u16 mix(u16 bits) {
  bits = (bits ^ (bits >> 15)) * 0x2c1b3c6du;
  bits = (bits ^ (bits >> 12)) * 0x297a2d39u;
  return bits ^ (bits >> 15);
}

static int by_weight(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
  return x->token - y->token;
}

static int bucket_of(float weight) {
  int32_t bits;
  memcpy(&bits, &weight, 4);
  return bits >> 18;
}

// Keep the likeliest tokens, as long as fewer than `count` and less than `mass` are before them; zero the others.
static void keep_likeliest(float *weights, int64_t vocab, int64_t count, double mass, Candidate *candidates) {
  static _Thread_local int32_t counts[BUCKETS];
  static _Thread_local double masses[BUCKETS];
  memset(counts, 0, sizeof counts);
  memset(masses, 0, sizeof masses);
  for (int64_t i = 0; i < vocab; i++) {
    int bucket = bucket_of(weights[i]);
    counts[bucket]++;
    masses[bucket] += weights[i];
  }
  int last = BUCKETS - 1;  // the bucket in which the limit is
  int64_t before = 0;
  double mass_before = 0;
  while (last > 0 && before + counts[last] < count && mass_before + masses[last] < mass) {
    before += counts[last];
    mass_before += masses[last--];
  }
  int64_t found = 0;
  for (int64_t i = 0; i < vocab; i++)
    if (bucket_of(weights[i]) == last) candidates[found++] = (Candidate){weights[i], i};
  qsort(candidates, found, sizeof *candidates, by_weight);
  int64_t kept = 0;
  for (; kept < found && before + kept < count && (mass_before < mass || before + kept == 0); kept++)
    mass_before += candidates[kept].weight;
  for (int64_t i = kept; i < found; i++) weights[candidates[i].token] = 0;
  for (int64_t i = 0; i < vocab; i++)
    if (bucket_of(weights[i]) < last) weights[i] = 0;
}

// The token whose weight divided by an exponential draw is the largest.
static int64_t race(const float *weights, const int32_t *hashes, int64_t vocab, const uint32_t *keys) {
  v16 best = all(-1);
  i16 winner = {};
  const i16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t i = 0; i < vocab; i += LANES) {
    u16 bits;
    memcpy(&bits, hashes + i, 64);
    bits = mix((bits ^ keys[0]) * (keys[1] | 1)) & 0x7fffffffu;
    v16 uniform = (__builtin_convertvector((i16)bits, v16) + 0.5f) * 0x1p-31f;
    uniform = choose(uniform < 1 - 0x1p-24f, uniform, all(1 - 0x1p-24f));  // 1 would let the only candidate lose
    v16 score = load(weights + i) / exponential_of(uniform);
    i16 better = score > best;
    best = choose(better, score, best);
    winner = (better & (lane + (int32_t)i)) | (~better & winner);
  }
  int64_t first = 0;
  for (int i = 1; i < LANES; i++)
    if (best[i] > best[first] || (best[i] == best[first] && winner[i] < winner[first])) first = i;
  return winner[first];
}

// weights and hashes have room for a whole number of vectors.
static int64_t draw_one(const float *logits, int64_t vocab, const Draw *d, float coldest, const int32_t *hashes,
                        float *weights, Candidate *candidates) {
  float best = -INFINITY;
  int64_t likeliest = 0, nans = 0;
  for (int64_t i = 0; i < vocab; i++) {
    nans += logits[i] != logits[i];
    if (logits[i] > best) best = logits[likeliest = i];
  }
  if (nans || isinf(best)) return -1;
  if (d->temperature < coldest) return likeliest;
  double mass = 0;
  for (int64_t i = 0; i < vocab; i += LANES) {
    v16 x = all(-INFINITY);
    memcpy(&x, logits + i, (vocab - i < LANES ? vocab - i : LANES) * sizeof(float));
    x = (x - best) / d->temperature;
    v16 weight = choose(x > -87.0f, exp_of(x), all(0));
    memcpy(weights + i, &weight, 64);
    mass += sum_of(weight);
  }
  int64_t count = d->top_k > 0 && d->top_k < vocab ? d->top_k : vocab;
  if (count < vocab) {
    keep_likeliest(weights, vocab, count, INFINITY, candidates);
    mass = 0;
    for (int64_t i = 0; i < vocab; i++) mass += weights[i];
  }
  if (d->top_p < 1) keep_likeliest(weights, vocab, count, d->top_p * mass, candidates);
  return race(weights, hashes, vocab, d->keys);
}

// `hashes` [padded] is of each token; `weights` [rows][padded] and `candidates` [rows][vocab] are scratch.
typedef struct {
  int64_t rows, vocab, padded;
  float coldest;
  const float *logits;  // [rows][vocab]
  const Draw *draws;
  const int32_t *hashes;
  float *weights;
  Candidate *candidates;
  int64_t *tokens;
} Drawing;

static void draw_part(const void *context, int64_t row) {
  const Drawing *d = context;
  d->tokens[row] = draw_one(d->logits + row * d->vocab, d->vocab, d->draws + row, d->coldest, d->hashes,
                            d->weights + row * d->padded, d->candidates + row * d->vocab);
}

// Draw a token for each row; -1 where none can be drawn.
void draw(const Drawing *d) { share(d->rows, draw_part, d); }
