import type { ObservedPropertiesResult, ObservedProperty } from '@sluice/contracts/observed-properties'
import { observedPropertiesLimits } from '@sluice/contracts/observed-properties'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { type CsvRow, fileNameOf } from '../../format/csv.ts'
import { FilterValue } from '../../page-components/filter-value.tsx'
import { usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { EmptyState, ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const refreshMs = 5 * 60_000

const shareOf = (count: number, most: number) => ({ inlineSize: `${most === 0 ? 0 : (count / most) * 100}%` })

const rowsOf = ({ properties }: ObservedPropertiesResult): CsvRow[] =>
  properties.flatMap(({ name, count, values }) =>
    (values.length === 0 ? [{ value: '', count: 0 }] : values).map((each) => ({
      name,
      count,
      value: each.value,
      value_count: each.count,
    })),
  )

/** Names of what events carry, with counts, and the most frequent values of the chosen name, each a filter. */
export function Properties() {
  const { siteId } = useView()
  const { environment } = useViewQueries()
  const [chosen, setChosen] = usePageParameter('property')
  const query = { site_id: siteId, environment }
  const observed = useApi(
    'properties',
    { query },
    { staleMs: refreshMs, refetchMs: (answer) => (answer === undefined ? false : refreshMs) },
  )
  const { data } = observed
  const source = useFromAnswer(observed, (answered) => ({
    label: texts.properties,
    request: requestOf('properties', { query }),
    rows: () => rowsOf(answered),
    fileName: fileNameOf([siteId, 'properties'], 'csv'),
  }))
  const property = data?.properties.find(({ name }) => name === (chosen ?? 'event_type')) ?? data?.properties[0]
  return (
    <section aria-labelledby="properties-title" class="stack-small">
      <header class="section-head observed-head">
        <h2 id="properties-title">{texts.properties}</h2>
        <span class="muted small grow">{texts.propertiesWhy}</span>
        <MoreMenu source={source} />
      </header>
      <ErrorPanel error={observed.error} onRetry={observed.retry} />
      {observed.isLoading ? (
        <div class="observed">
          <div class="observed-list">
            <SkeletonRows rows={8} />
          </div>
          <div class="observed-list" />
        </div>
      ) : null}
      {data !== undefined && property === undefined ? (
        <EmptyState title={texts.noProperties} why={texts.noPropertiesWhy} />
      ) : null}
      {data === undefined || property === undefined ? null : (
        <div class={`observed${observed.isPlaceholderData ? ' old' : ''}`}>
          <Names
            properties={data.properties}
            chosen={property.name}
            onChoose={(name) => setChosen(name === 'event_type' ? undefined : name)}
          />
          <Values property={property} />
        </div>
      )}
    </section>
  )
}

function Names({
  properties,
  chosen,
  onChoose,
}: {
  properties: readonly ObservedProperty[]
  chosen: string
  onChoose: (name: string) => void
}) {
  const most = Math.max(...properties.map(({ count }) => count))
  return (
    <div class="observed-list" role="group" aria-label={texts.properties} tabIndex={0}>
      <table class="bar-table">
        <caption class="hidden-text">{texts.properties}</caption>
        <thead>
          <tr>
            <th scope="col">{texts.property}</th>
            <th scope="col" class="end">
              {texts.events}
            </th>
          </tr>
        </thead>
        <tbody>
          {properties.map(({ name, count }) => (
            <tr key={name} class={name === chosen ? 'open' : undefined}>
              <td>
                <span class="row-bar" style={shareOf(count, most)} />
                <button type="button" class="bar-name" aria-pressed={name === chosen} onClick={() => onChoose(name)}>
                  <bdi>{name}</bdi>
                </button>
              </td>
              <td class="end">
                <Num value={count} name={name} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Values({ property: { name, values } }: { property: ObservedProperty }) {
  const most = Math.max(...values.map(({ count }) => count), 1)
  return (
    <div class="observed-list" role="group" aria-label={texts.valuesOf(name)} tabIndex={0}>
      <table class="bar-table">
        <caption class="hidden-text">{texts.valuesOf(name)}</caption>
        <thead>
          <tr>
            <th scope="col">
              <bdi>{texts.valuesOf(name)}</bdi>
            </th>
            <th scope="col" class="end">
              {texts.events}
            </th>
          </tr>
        </thead>
        <tbody>
          {values.map(({ value, count }) => (
            <tr key={value}>
              <td>
                <span class="row-bar" style={shareOf(count, most)} />
                <FilterValue property={name} value={value} />
              </td>
              <td class="end">
                <Num value={count} name={value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {values.length < observedPropertiesLimits.valuesMax ? null : (
        <p class="muted small">{texts.otherValues(observedPropertiesLimits.valuesMax)}</p>
      )}
    </div>
  )
}
