/** A drawing of lucide-static, which build.ts reads: its elements with their attributes. */
declare module '*.svg' {
  const elements: readonly (readonly [tag: string, attributes: Readonly<Record<string, string>>])[]
  export default elements
}

/** The outlines of the countries; the types of JSON files know no tuples, which outlines are made of. */
declare module 'world-atlas/countries-110m.json' {
  import type { merge } from 'topojson-client'
  type Topology = Parameters<typeof merge>[0]
  type Countries = Exclude<Parameters<typeof merge>[1], readonly unknown[]>
  const atlas: Topology & { objects: { countries: Countries } }
  export default atlas
}
