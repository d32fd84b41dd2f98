/* What PyTorch computes; made by tests/ops/kinks.py. */
/* clang-format off */
static const Kink clip_kinks[] = {
    { "Clip by numbers",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  const %l : float64[] = {0}\n"
      "  const %h : float64[] = {6}\n"
      "  %y = Clip(%a, %l, %h)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 5 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 } },
      { { 0.0, 0.0, 3.0, 0.0, 0.0 } } },
    { "Clip by a least number",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  const %l : float64[] = {0}\n"
      "  %y = Clip(%a, %l)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 5 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 } },
      { { 0.0, 0.0, 3.0, 4.0, 5.0 } } },
    { "Clip by a greatest number",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  const %h : float64[] = {6}\n"
      "  %y = Clip(%a, _, %h)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 5 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 } },
      { { 1.0, 2.0, 3.0, 0.0, 0.0 } } },
    { "Clip by tensors",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  input %b : float64[]\n"
      "  input %c : float64[]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Clip(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 5, 1, 1 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 },
        { 0.0 },
        { 6.0 } },
      { { 0.0, 1.0, 3.0, 2.0, 0.0 },
        { 2.0 },
        { 7.0 } } },
    { "Clip by a least tensor",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  input %b : float64[]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Clip(%a, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 5, 1 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 },
        { 0.0 } },
      { { 0.0, 1.0, 3.0, 4.0, 5.0 },
        { 2.0 } } },
    { "Clip by a greatest tensor",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  input %b : float64[]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Clip(%a, _, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 5, 1 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 },
        { 6.0 } },
      { { 1.0, 2.0, 3.0, 2.0, 0.0 },
        { 7.0 } } },
    { "Clip by equal tensors",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  input %b : float64[]\n"
      "  input %c : float64[]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Clip(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 5, 1, 1 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 },
        { 3.0 },
        { 3.0 } },
      { { 0.0, 0.0, 3.0, 0.0, 0.0 },
        { 3.0 },
        { 9.0 } } },
    { "Clip by crossed tensors",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  input %b : float64[]\n"
      "  input %c : float64[]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Clip(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 5, 1, 1 },
      { { -1.0, 0.0, 3.0, 6.0, 7.0 },
        { 6.0 },
        { 0.0 } },
      { { 0.0, 0.0, 0.0, 0.0, 0.0 },
        { 0.0 },
        { 15.0 } } },
};
