/** A drawing of lucide-static, which build.ts reads: its elements with their attributes. */
declare module '*.svg' {
  const elements: readonly (readonly [tag: string, attributes: Readonly<Record<string, string>>])[]
  export default elements
}
