import { geoNaturalEarth1, geoPath } from 'd3-geo'
import { useMemo } from 'preact/hooks'
import { feature } from 'topojson-client'
import atlas from 'world-atlas/countries-110m.json' with { type: 'json' }
import { lettersByNumber } from './country-codes.ts'

const width = 480
const height = 250

export interface WorldMapProps {
  /** Values by the letters of countries. */
  values: ReadonlyMap<string, number>
  /** Names a country and its value: the tooltip. */
  describe: (letters: string, value: number) => string
  /** What the map shows, for screen readers, for which a table stands next to it. */
  label: string
  /** Letters of the countries that the view is filtered by. */
  chosen: readonly string[]
  onPick: (letters: string, event: MouseEvent) => void
}

/** A map of the world, tinted by values. Whoever can't see or point at it has the same numbers in the table. */
export default function WorldMap({ values, describe, label, chosen, onPick }: WorldMapProps) {
  const countries = useMemo(() => {
    const { features } = feature(atlas, atlas.objects.countries)
    // Antarctica has no visitors and takes a fifth of the map.
    const inhabited = features.filter(({ id }) => id !== '010')
    const path = geoPath(
      geoNaturalEarth1().fitSize([width, height], { type: 'FeatureCollection', features: inhabited }),
    )
    return inhabited.map((each) => ({ letters: lettersByNumber.get(String(each.id)), shape: path(each) ?? '' }))
  }, [])
  const highest = Math.max(1, ...values.values())
  return (
    <svg class="world-map" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {countries.map(({ letters, shape }, at) => {
        const value = letters === undefined ? undefined : values.get(letters)
        if (letters === undefined || value === undefined) return <path key={at} d={shape} />
        // The square root, because the first country is often ten times the third.
        const share = Math.round(Math.sqrt(value / highest) * 100)
        return (
          <path
            key={at}
            d={shape}
            class={`counted${chosen.includes(letters) ? ' chosen' : ''}`}
            style={{ '--share': `${share}%` }}
            onClick={(event) => onPick(letters, event)}
          >
            <title>{describe(letters, value)}</title>
          </path>
        )
      })}
    </svg>
  )
}
