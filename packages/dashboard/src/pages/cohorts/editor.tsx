import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { CohortResource } from '@sluice/contracts/cohorts'
import { cohortLimits } from '@sluice/contracts/cohorts'
import type { Criteria } from '@sluice/contracts/conditions'
import { changedFields } from '../../api/changed-fields.ts'
import { useApi, useOperationMutation } from '../../api/hooks.ts'
import { hasRoomFor, usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Problem, TextField } from '../../ui/field.tsx'
import { focusFirstProblem } from '../../ui/form-dialog.tsx'
import { useLeaveGuard } from '../../ui/leave-guard.ts'
import { ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { useDebouncedValue } from '../../ui/use-debounced-value.ts'
import { Builder } from './builder.tsx'
import { emptyCriteria, parseDraft, sentCriteria } from './criteria.ts'
import { texts } from './messages.ts'
import { CohortSize } from './size.tsx'

/** A text field whose value is in the address, and survives a reload, while it differs from the saved one. */
function useDraftText(parameter: string, saved: string): [string, (text: string) => void] {
  const [kept, setKept] = usePageParameter(parameter)
  const [text, setText] = useState(kept ?? saved)
  const debouncedText = useDebouncedValue(text)
  useEffect(() => {
    const changed = debouncedText === saved ? undefined : debouncedText
    if (changed !== kept) setKept(changed, true)
  }, [debouncedText])
  return [text, setText]
}

export interface EditorProps {
  /** The cohort that is changed; undefined makes a new one. */
  cohort: CohortResource | undefined
  /** Ends editing: with the id of what was saved. */
  onClose: (cohortId?: string) => void
}

const invalidatedOperations = ['listCohorts', 'getCohort', 'cohortAnalysis', 'retention'] as const

/**
 * Makes or changes a cohort; its size follows 400 ms after the last edit. The draft is in the address and survives a
 * reload; with a draft that is too long for it, the reader is asked before leaving.
 */
export function Editor({ cohort, onClose }: EditorProps) {
  // The list may be refetched while the form is open.
  const [opened] = useState(cohort)
  const { siteId } = useView()
  const { environment } = useViewQueries()
  const [draft, setDraft] = usePageParameter('draft')
  const [name, setName] = useDraftText('name', opened?.name ?? '')
  const [description, setDescription] = useDraftText('description', opened?.description ?? '')
  const [criteria, setCriteria] = useState<Criteria>(
    () => (draft === undefined ? undefined : parseDraft(draft)) ?? opened?.criteria ?? emptyCriteria,
  )
  const [problem, setProblem] = useState<'name' | 'criteria'>()
  const observed = useApi('properties', { query: { site_id: siteId, environment } }, { staleMs: 300_000 })
  const debouncedJson = useDebouncedValue(JSON.stringify(criteria))
  const debouncedCriteria = sentCriteria(JSON.parse(debouncedJson) as Criteria)
  const isChanged = debouncedJson !== JSON.stringify(opened?.criteria ?? emptyCriteria)
  const isTooLong = isChanged && !hasRoomFor('draft', debouncedJson)
  const endGuard = useLeaveGuard('ask', isTooLong)
  const close = (cohortId?: string) => {
    endGuard()
    onClose(cohortId)
  }
  useEffect(() => {
    const kept = isChanged && !isTooLong ? debouncedJson : undefined
    if (kept !== draft) setDraft(kept, true)
  }, [debouncedJson, isTooLong])
  const create = useOperationMutation('createCohort', invalidatedOperations)
  const update = useOperationMutation('updateCohort', invalidatedOperations)
  const change = opened === undefined ? create : update
  const form = useRef<HTMLFormElement>(null)
  const problemId = useId()
  /** An edit takes a failure and its countdown away: a form that is being written must not be sent by itself. */
  const forgetFailure = () => {
    if (change.error !== undefined) change.reset()
  }
  const save = () => {
    const sent = sentCriteria(criteria)
    if (name.trim() === '') setProblem('name')
    else if (sent === undefined) setProblem('criteria')
    else {
      setProblem(undefined)
      const body = { name, description, criteria: sent }
      const onSaved = (saved: CohortResource) => {
        toast(texts.saved(saved.name))
        // A reader who has gone back to the list stays there.
        if (form.current !== null) close(saved.cohort_id)
      }
      if (opened === undefined) create.start({ body: { ...body, site_id: siteId } }, onSaved)
      else {
        const before = {
          name: opened.name,
          description: opened.description ?? '',
          criteria: sentCriteria(opened.criteria),
        }
        update.start({ params: { cohort_id: opened.cohort_id }, body: changedFields(body, before) }, onSaved)
      }
    }
  }
  return (
    <form
      ref={form}
      class="stack"
      onInput={forgetFailure}
      onSubmit={(event) => {
        event.preventDefault()
        save()
        focusFirstProblem(event.currentTarget)
      }}
    >
      <PageTitle title={<bdi>{opened === undefined ? texts.create : texts.editTitle(opened.name)}</bdi>} />
      <div class="cohort-fields">
        <TextField
          label={texts.name}
          value={name}
          maxLength={cohortLimits.nameLengthMax}
          error={problem === 'name' ? texts.nameMissing : undefined}
          onInput={setName}
        />
        <TextField
          label={texts.description}
          isOptional
          value={description}
          maxLength={cohortLimits.descriptionLengthMax}
          onInput={setDescription}
        />
      </div>
      <ErrorPanel error={observed.error} onRetry={observed.retry} />
      <Builder
        criteria={criteria}
        onChange={(next) => {
          setCriteria(next)
          forgetFailure()
          if (problem === 'criteria') setProblem(undefined)
        }}
        observed={observed.data?.properties ?? []}
        problemId={problem === 'criteria' ? problemId : undefined}
      />
      <div class="cohort-foot">
        <div class="grow">
          <h2 class="label">{texts.preview}</h2>
          {debouncedCriteria === undefined ? (
            <p class="muted">{texts.incomplete}</p>
          ) : (
            <CohortSize isSpoken criteria={debouncedCriteria} name={name === '' ? texts.create : name} />
          )}
        </div>
        <div class="row">
          <Button disabled={change.isBusy} onClick={() => close()}>
            {texts.cancel}
          </Button>
          <Button kind="primary" type="submit" isBusy={change.isBusy}>
            {texts.save}
          </Button>
        </div>
      </div>
      <Problem id={problemId} text={problem === 'criteria' ? texts.incompleteSave : undefined} />
      <ErrorPanel error={change.error} isChange onRetry={save} />
    </form>
  )
}
