import { formatNumber } from '../../format/numbers.ts'
import { valueLabel } from '../../format/sentences.ts'
import { useFilterClick } from '../../page-components/use-filter-click.ts'
import { usePageParameter, type ViewQueries } from '../../state/hooks.ts'
import { lazyPage } from '../../ui/lazy-page.tsx'
import { Select } from '../../ui/select.tsx'
import { texts } from './messages.ts'
import { Panel } from './panel.tsx'

const WorldMap = lazyPage(() => import('../../charts/world-map.tsx'))
/** There are 249 codes of countries. */
const mapCountries = 300

/** Countries as a table or as a map, whose code is loaded when it is chosen. The choice is part of the address. */
export function CountriesPanel({ viewQueries, isEnabled }: { viewQueries: ViewQueries; isEnabled: boolean }) {
  const filterBy = useFilterClick()
  const [chosen, setChosen] = usePageParameter('countries')
  const form = chosen === 'map' ? 'map' : 'table'
  const title = texts.panels.country
  return (
    <Panel
      title={title}
      dimension="country"
      viewQueries={viewQueries}
      isEnabled={isEnabled}
      choice={
        <Select
          class="quiet-input"
          name={texts.form}
          value={form}
          options={[
            { value: 'table', label: texts.table },
            { value: 'map', label: texts.map },
          ]}
          onChange={(value) => setChosen(value === 'map' ? value : undefined)}
        />
      }
      {...(form === 'table'
        ? {}
        : {
            limit: mapCountries,
            draw: (rows, chosen) => (
              <WorldMap
                label={texts.mapLabel}
                values={new Map(rows.map(({ key, value }) => [key, value]))}
                describe={(letters, value) => {
                  const isEstimated = rows.some(({ key, estimated }) => key === letters && estimated)
                  return `${valueLabel('country', letters)}: ${isEstimated ? '≈' : ''}${formatNumber(value)}`
                }}
                chosen={chosen}
                onPick={(letters, event) => filterBy('country', letters, event)}
              />
            ),
          })}
    />
  )
}
