import { propertyPrefix } from '@sluice/contracts/conditions'
import { useApi } from '../../api/hooks.ts'
import { usePageParameter, useView, type ViewQueries } from '../../state/hooks.ts'
import { Select } from '../../ui/select.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { texts } from './messages.ts'
import { Panel } from './panel.tsx'

/** The values of one property of the events; which one stands in the address. */
export function PropertiesPanel({ viewQueries, isEnabled }: { viewQueries: ViewQueries; isEnabled: boolean }) {
  const { siteId } = useView()
  const [chosen, setChosen] = usePageParameter('property')
  const observed = useApi(
    'properties',
    isEnabled ? { query: { site_id: siteId, environment: viewQueries.environment } } : null,
    { staleMs: 300_000 },
  )
  const names = (observed.data?.properties ?? [])
    .filter(({ name }) => name.startsWith(propertyPrefix))
    .map(({ name }) => name.slice(propertyPrefix.length))
  const name = chosen ?? names[0]
  const choice =
    observed.data !== undefined && names.length === 0 ? (
      <input
        class="input"
        aria-label={texts.property}
        placeholder={texts.propertyExample}
        defaultValue={name}
        onChange={(event) => setChosen(event.currentTarget.value.trim() || undefined)}
      />
    ) : name === undefined ? null : (
      <Select
        class="quiet-input"
        name={texts.property}
        value={name}
        options={[...new Set([name, ...names])].sort().map((each) => ({ value: each, label: each }))}
        onChange={(value) => setChosen(value)}
      />
    )
  const empty =
    observed.error !== undefined ? (
      <ErrorPanel error={observed.error} onRetry={observed.retry} />
    ) : observed.data === undefined ? undefined : (
      <p class="muted panel-empty">{texts.noProperties}</p>
    )
  return (
    <Panel
      title={texts.properties}
      dimension={`${propertyPrefix}${name ?? ''}`}
      viewQueries={viewQueries}
      isEnabled={isEnabled && name !== undefined}
      choice={choice}
      body={name === undefined ? empty : undefined}
    />
  )
}
