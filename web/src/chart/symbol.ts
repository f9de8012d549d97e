// The shapes of Plot's marks, small, for legends.
const polygon = (count: number, radius: (i: number) => number, turn = 0): string => {
  const points = Array.from({ length: count }, (_, i) => {
    const angle = turn + (2 * Math.PI * i) / count - Math.PI / 2;
    return `${(radius(i) * Math.cos(angle)).toFixed(2)},${(radius(i) * Math.sin(angle)).toFixed(2)}`;
  });
  return `M${points.join("L")}Z`;
};

const paths: Record<string, string> = {
  circle: "M-4,0A4,4 0 1 1 4,0A4,4 0 1 1 -4,0Z",
  cross: "M-4.5,-1.5H-1.5V-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5Z",
  diamond: "M0,-5L3.4,0L0,5L-3.4,0Z",
  square: "M-3.6,-3.6H3.6V3.6H-3.6Z",
  star: polygon(10, (i) => (i % 2 === 0 ? 5.4 : 2.1)),
  triangle: polygon(3, () => 5),
  wye: polygon(3, () => 5, Math.PI),
};

export const symbolPath = (symbol: unknown): string => paths[String(symbol)] ?? paths.circle!;
