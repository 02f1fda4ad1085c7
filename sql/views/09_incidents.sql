-- One row per incident as its events leave it. Params: none
create view incidents as
select * from incident_records;
