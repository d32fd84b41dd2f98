/* Made by decided.py. */
static const float decided_x[] = { 1.0F,  0.25F,   0.375F, 0.875F,  0.125F, 0.625F,
                                   0.75F, -0.625F, -1.0F,  -0.375F, -0.5F,  0.75F };
static const float decided_greater_1[] = { -0.6436451F, -0.30242756F, 0.038789988F };
static const float decided_greater_2[] = { -0.6436451F,  -0.30242756F, 0.038789988F,
                                           -0.45769396F, -0.11197941F, 0.23373517F };
static const float decided_less_2[] = { 0.875F, 0.46875F, 0.0625F, 0.59375F, 0.1875F, -0.21875F };
static const float decided_less_4[] = { 0.875F,   0.46875F, 0.0625F,  0.59375F, 0.1875F,   -0.21875F,
                                        1.09375F, 1.3125F,  1.53125F, -0.875F,  -0.84375F, -0.8125F };
static const float decided_turns_2[] = {
    -0.5301659F, -0.2236865F, 0.08279294F, -0.3857901F, -0.077160984F, 0.23146817F
};
static const float decided_counts_2[] = {
    -0.5301659F, -0.2236865F, 0.08279294F, -0.3857901F, -0.077160984F, 0.23146817F
};
static const float decided_sums_2[] = { -0.875F, -0.46875F, -0.0625F, -1.46875F, -0.65625F, 0.15625F };
static const float decided_last_2[] = { -1.46875F, -0.65625F, 0.15625F, -1.1875F, -0.375F, 0.4375F };
