import { useId, useRef, useState } from 'preact/hooks'
import type { KeyResource } from '@sluice/contracts/keys'
import { type Environment, scopes } from '@sluice/contracts/scopes'
import { allSitesQuery } from '../../api/all-sites-query.ts'
import { serverNow } from '../../api/client.ts'
import type { ApiError } from '../../api/error.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { type ApiState, useApi } from '../../api/hooks.ts'
import type { Data } from '../../api/wire.ts'
import { formatDate, ownZone } from '../../format/dates.ts'
import { isFound, ListSearch } from '../../page-components/list-search.tsx'
import { useSession } from '../../state/session.tsx'
import { remembered } from '../../state/storage.ts'
import { Checkbox, RadioGroup } from '../../ui/choice.tsx'
import { Field, Problem, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { Select } from '../../ui/select.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import {
  bodyOf,
  draftOf,
  editedDraft,
  type Edits,
  expiries,
  type Expiry,
  type KeyBody,
  type KeyDraft,
  type LimitName,
  limitNames,
  newDraft,
  presetEdits,
  problemsOf,
  scopesOf,
  sendsEvents,
} from './key-draft.ts'
import { texts } from './messages.ts'
import { type Preset, presets } from './presets.ts'

const formFields = [
  'name',
  'scopes',
  'site_ids',
  'expires_at',
  'allowed_origins',
  ...limitNames.map((name) => `rate_limits.${name}`),
]

interface KeyFormProps {
  /** The key that is edited; absent: a new one is made. */
  apiKey?: KeyResource
  onSubmit: (body: KeyBody, environment: Environment) => unknown
  onClose: () => void
  isBusy: boolean
  error: ApiError | undefined
}

/** A part of the form. */
interface PartProps {
  draft: KeyDraft
  set: (patch: Edits) => void
  errorOf: (field: string) => string | undefined
}

/** The dialog that makes or edits a key. */
export function KeyForm({ apiKey, onSubmit, onClose, isBusy, error }: KeyFormProps) {
  const session = useSession()
  const [edits, setEdits] = useState<Edits>({})
  const [isTried, setTried] = useState(false)
  const sites = useApi('listSites', allSitesQuery)
  const known = idsOf(sites)
  const site = known.length === 1 ? known[0] : known.find((each) => each === remembered('site'))
  const draft = apiKey === undefined ? newDraft(session, edits, site) : editedDraft(draftOf(apiKey), edits)
  const errors = fieldErrors(error, formFields)
  const problems = problemsOf(draft, serverNow())
  const parts: PartProps = {
    draft,
    set: (patch) => {
      setEdits((before) => ({ ...before, ...patch, limits: { ...before.limits, ...patch.limits } }))
    },
    errorOf: (field) => (isTried ? problems[field] : undefined) ?? errors.forField(field),
  }
  return (
    <FormDialog
      title={apiKey === undefined ? texts.create : texts.editTitle}
      submit={apiKey === undefined ? texts.create : texts.save}
      onSubmit={() => {
        setTried(true)
        if (Object.values(problems).some((problem) => problem !== undefined)) return undefined
        return onSubmit(bodyOf(draft, serverNow(), apiKey), draft.environment)
      }}
      onClose={onClose}
      isBusy={isBusy}
      error={errors.rest}
    >
      <TextField
        label={texts.name}
        hint={texts.nameHint}
        value={draft.name}
        onInput={(name) => {
          parts.set({ name })
        }}
        autofocus
        autocomplete="off"
        error={parts.errorOf('name')}
      />
      <ScopeChoice {...parts} />
      {apiKey === undefined ? (
        <RadioGroup
          isInline
          legend={texts.environment}
          value={draft.environment}
          options={(['prod', 'dev'] as const).map((value) => ({ value, label: texts.environments[value] }))}
          onChange={(environment) => {
            parts.set({ environment })
          }}
        />
      ) : null}
      <SiteChoice
        sites={sites}
        value={draft.siteIds}
        onChange={(siteIds) => {
          parts.set({ siteIds })
        }}
        problem={parts.errorOf('site_ids')}
      />
      <ExpiryChoice {...parts} kept={apiKey?.expires_at ?? null} />
      <Origins {...parts} />
      <Limits {...parts} isOpen={Object.values(draft.limits).some((text) => text !== '')} />
    </FormDialog>
  )
}

function ScopeChoice({ draft, set, errorOf }: PartProps) {
  const problemId = useId()
  const problem = errorOf('scopes')
  return (
    <>
      <RadioGroup
        legend={texts.preset}
        value={draft.preset}
        options={([...Object.keys(presets), 'custom'] as Preset[]).map((value) => ({ value, ...texts.presets[value] }))}
        onChange={(preset) => {
          set(presetEdits(draft, preset))
        }}
      />
      {draft.preset === 'custom' ? (
        <fieldset>
          <legend class="legend">{texts.scopes}</legend>
          {scopes.map((scope, at) => (
            <Checkbox
              key={scope}
              label={<code>{scope}</code>}
              hint={texts.scopeHints[scope]}
              problemId={at === 0 && problem !== undefined ? problemId : undefined}
              checked={draft.scopes.includes(scope)}
              onChange={(isChosen) => {
                set({ scopes: isChosen ? [...draft.scopes, scope] : draft.scopes.filter((each) => each !== scope) })
              }}
            />
          ))}
          <Problem id={problemId} text={problem} />
        </fieldset>
      ) : null}
    </>
  )
}

function ExpiryChoice({ draft, set, errorOf, kept }: PartProps & { kept: number | null }) {
  return (
    <Field label={texts.expires} error={errorOf('expires_at')}>
      {(attributes) => (
        <div class="row">
          <Select<Expiry>
            {...attributes}
            class="grow"
            value={draft.expiry}
            options={[
              ...(kept === null
                ? []
                : [{ value: 'keep' as const, label: texts.expiry.keep(formatDate(kept, ownZone())) }]),
              ...expiries.map((value) => ({ value, label: texts.expiry[value] })),
            ]}
            onChange={(expiry) => {
              set({ expiry })
            }}
          />
          {draft.expiry === 'date' ? (
            <input
              class="input key-day"
              type="date"
              aria-label={texts.expiryDay}
              value={draft.day}
              onInput={(event) => {
                set({ day: event.currentTarget.value })
              }}
            />
          ) : null}
        </div>
      )}
    </Field>
  )
}

function Origins({ draft, set, errorOf }: PartProps) {
  if (!sendsEvents(draft) || (draft.preset === 'admin' && draft.origins === '')) return null
  return (
    <TextField
      label={texts.origins}
      isOptional
      hint={texts.originsHint}
      lines={2}
      placeholder={texts.originsExample}
      value={draft.origins}
      onInput={(origins) => {
        set({ origins })
      }}
      error={errorOf('allowed_origins')}
    />
  )
}

/** The limits of the key. A limit that does not apply to its scopes has a field only if it is set. */
function Limits({ draft, set, errorOf, isOpen }: PartProps & { isOpen: boolean }) {
  const isAdmin = scopesOf(draft).includes('admin')
  const reads = isAdmin || scopesOf(draft).some((scope) => scope !== 'events:write')
  const isUsed: Record<LimitName, boolean> = {
    events_per_minute: sendsEvents(draft),
    events_per_minute_per_address: sendsEvents(draft),
    queries_per_minute: reads,
    admin_per_minute: reads,
  }
  const shown = limitNames.filter((name) => isUsed[name] || draft.limits[name] !== '')
  const isWrong = shown.some((name) => errorOf(`rate_limits.${name}`) !== undefined)
  // Once open, the section stays open: a field that the user has just emptied must not disappear.
  const wasOpen = useRef(false)
  wasOpen.current ||= isOpen || isWrong
  return (
    <details open={wasOpen.current}>
      <summary>{texts.limits}</summary>
      <div class="stack key-limits">
        <p class="muted small">{texts.limitsHint}</p>
        {shown.map((name) => (
          <TextField
            key={name}
            label={texts.limitNames[name]}
            hint={texts.limitHints[name]}
            inputMode="numeric"
            autocomplete="off"
            value={draft.limits[name]}
            onInput={(text) => {
              set({ limits: { [name]: text } })
            }}
            error={errorOf(`rate_limits.${name}`)}
          />
        ))}
      </div>
    </details>
  )
}

const idsOf = ({ data }: ApiState<Data<'listSites'>>) => data?.sites.map((site) => site.site_id) ?? []

interface SiteChoiceProps {
  sites: ApiState<Data<'listSites'>>
  value: readonly string[] | null
  onChange: (value: readonly string[] | null) => void
  problem: string | undefined
}

/** The choice between all sites and some. A key that is bound to sites can't create a key for all sites. */
function SiteChoice({ sites, value, onChange, problem }: SiteChoiceProps) {
  const { site_ids: own } = useSession()
  const [search, setSearch] = useState('')
  const problemId = useId()
  // The sites of the key that the list lacks come last: a box that is ticked must stay where it is.
  const offered = [...new Set([...idsOf(sites), ...(value ?? [])])]
  const found = offered.filter((site) => isFound(search, site))
  // The problem is attached to the first checkbox, so at least one must be listed.
  const listed = found.length === 0 && problem !== undefined ? offered : found
  return (
    <div>
      <RadioGroup
        isInline
        legend={texts.sites}
        value={value === null ? 'all' : 'some'}
        options={[
          { value: 'all', label: texts.allSites, disabled: own !== null },
          { value: 'some', label: texts.someSites, disabled: offered.length === 0 },
        ]}
        onChange={(chosen) => onChange(chosen === 'all' ? null : offered.length === 1 ? offered : [])}
      />
      {value === null ? null : (
        <div class="stack-small">
          <ListSearch label={texts.findSite} rows={offered.length} value={search} onInput={setSearch} />
          <div class="site-choice" role="group" aria-label={texts.sites}>
            {listed.map((site, at) => (
              <Checkbox
                key={site}
                label={<bdi>{site}</bdi>}
                checked={value.includes(site)}
                problemId={at === 0 && problem !== undefined ? problemId : undefined}
                onChange={(isChosen) => onChange(isChosen ? [...value, site] : value.filter((each) => each !== site))}
              />
            ))}
          </div>
        </div>
      )}
      <ErrorPanel error={sites.error} onRetry={sites.retry} />
      <Problem id={problemId} text={problem} />
    </div>
  )
}
