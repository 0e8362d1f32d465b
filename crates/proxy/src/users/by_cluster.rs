//! What is known of a user in each cluster that its clients come to: accounts of one name are others in each cluster.

use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::members::ClusterId;

/// One for each cluster, made when it is asked for. There are as many clusters as configurations have named.
#[derive(Debug, Default)]
pub(crate) struct ByCluster<T> {
    /// Of the cluster that is the only one where there is one.
    first: Arc<T>,
    others: RwLock<Vec<(ClusterId, Arc<T>)>>,
}

impl<T: Default> ByCluster<T> {
    pub(crate) fn of(&self, cluster: ClusterId) -> Arc<T> {
        if cluster == ClusterId::default() {
            return Arc::clone(&self.first);
        }
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let found = others.iter().find(|(id, _)| *id == cluster).map(|(_, it)| Arc::clone(it));
        drop(others);
        found.unwrap_or_else(|| self.add(cluster))
    }

    fn add(&self, cluster: ClusterId) -> Arc<T> {
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, it)) = others.iter().find(|(id, _)| *id == cluster) {
            return Arc::clone(it);
        }
        let new = Arc::<T>::default();
        others.push((cluster, Arc::clone(&new)));
        new
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.first).chain(others.iter().map(|(_, it)| it)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_has_one() {
        let of_user = ByCluster::<u32>::default();
        let (first, third) = (of_user.of(ClusterId(0)), of_user.of(ClusterId(2)));
        assert!(Arc::ptr_eq(&first, &of_user.of(ClusterId(0))));
        assert!(Arc::ptr_eq(&third, &of_user.of(ClusterId(2))));
        assert!(!Arc::ptr_eq(&first, &third));
        assert_eq!(of_user.all().len(), 2);
    }
}
